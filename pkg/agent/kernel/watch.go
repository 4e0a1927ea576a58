//go:build linux

package kernel

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Watch calls wake, from its own goroutines, when something of the agent's has changed on
// the node: the interfaces of pods, the VXLAN device, the gateway, or an nft table. It ends with ctx.
func Watch(ctx context.Context, wake func()) error {
	route, err := subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return err
	}
	nft, err := subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		route.Close()
		return err
	}
	context.AfterFunc(ctx, func() {
		route.Close()
		nft.Close()
	})
	go follow(ctx, route, wake, isOurLink)
	go follow(ctx, nft, wake, isOurTable)
	return nil
}

// pauseAfter an error, because the next call may return the same error at once.
const pauseAfter = 100 * time.Millisecond

func pause(ctx context.Context, err error) {
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pauseAfter):
	}
}

// subscribe to the kernel's notifications.
func subscribe(protocol int, groups ...uint) (*nl.NetlinkSocket, error) {
	socket, err := nl.SubscribeAt(netns.None(), netns.None(), protocol, groups...)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for notifications: %w", err)
	}
	if err := socket.SetReceiveBufferSize(1<<20, true); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set up a netlink socket for notifications: %w", err)
	}
	return socket, nil
}

// follow notifications until ctx, and with it the socket, ends. An error wakes too: usually
// it means that notifications were lost.
func follow(ctx context.Context, socket *nl.NetlinkSocket, wake func(), concerns func(syscall.NetlinkMessage) bool) {
	for {
		messages, _, err := socket.Receive()
		if ctx.Err() != nil {
			return
		}
		if err != nil || slices.ContainsFunc(messages, concerns) {
			wake()
		}
		pause(ctx, err)
	}
}

func isOurLink(m syscall.NetlinkMessage) bool {
	if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK {
		return false
	}
	l, err := netlink.LinkDeserialize(nil, m.Data)
	return err != nil || dataplane.IsLeftover(l.Attrs().Name) || strings.HasPrefix(l.Attrs().Name, cni.InterfacePrefix)
}

// isOurTable: the first attribute in messages of tables, chains, rules, sets and elements is
// the name of the table.
func isOurTable(m syscall.NetlinkMessage) bool {
	const head = 4 + unix.SizeofRtAttr // struct nfgenmsg, and the head of NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, ...
	return m.Header.Type&0xff != unix.NFT_MSG_NEWGEN && len(m.Data) > head && bytes.HasPrefix(m.Data[head:], []byte(dataplane.TableName+"\x00"))
}
