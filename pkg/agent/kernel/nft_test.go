//go:build linux && kernel

package kernel

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// flushNFT does the same as `nft flush ruleset`.
func flushNFT() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.FlushRuleset()
	return conn.Flush()
}

// dormant is `nft add table inet pod2 { flags dormant; }`, which the library cannot do.
func dormant(family nftables.TableFamily) error {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer socket.Close()
	message := func(kind, flags uint16, family, resource byte, attributes ...*nl.RtAttr) []byte {
		r := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: 1}}
		r.AddRawData([]byte{family, unix.NFNETLINK_V0, 0, resource})
		for _, a := range attributes {
			r.AddRawData(a.Serialize())
		}
		return r.Serialize()
	}
	batch := slices.Concat(message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES),
		message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_ACK, byte(family), 0,
			nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(dataplane.TableName)), nl.NewRtAttr(unix.NFTA_TABLE_FLAGS, []byte{0, 0, 0, unix.NFT_TABLE_F_DORMANT})),
		message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	if err := unix.Sendto(socket.GetFd(), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answers, _, err := socket.Receive()
	if err == nil && binary.NativeEndian.Uint32(answers[0].Data) != 0 {
		err = unix.Errno(-int32(binary.NativeEndian.Uint32(answers[0].Data)))
	}
	return err
}

// A changed rule is replaced, and so is an added one.
func TestRulesChangedByHand(t *testing.T) {
	l, _, _ := ipv4.twoNetworks(t)
	for _, change := range []func(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, rules []*nftables.Rule) error{
		func(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, _ []*nftables.Rule) error {
			conn.InsertRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
			return nil
		},
		func(conn *nftables.Conn, _ *nftables.Table, _ *nftables.Chain, rules []*nftables.Rule) error {
			return conn.DelRule(rules[0])
		},
		func(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, rules []*nftables.Rule) error {
			conn.ReplaceRule(&nftables.Rule{Table: table, Chain: chain, Handle: rules[0].Handle, UserData: rules[0].UserData, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
			return nil
		},
	} {
		var err error
		l.in("node1", func() {
			err = eachTable(func(conn *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error {
				rules, err := conn.GetRules(table, chains[0])
				if err == nil {
					err = errors.Join(change(conn, table, chains[0], rules), conn.Flush())
				}
				return err
			})
		})
		must(t, err)
		if got, want := l.sync(), "nft replace table inet pod2: "; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("got %s", got)
		}
	}
}
