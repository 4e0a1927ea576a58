//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

// entries are FDB entries and neighbours, of which there are tens of thousands: hundreds
// of messages go in one system call, and the kernel acknowledges the last of them. One by
// one, as netlink.NeighSet sends them and waits for each, those of 10,000 remote pods took
// five times as long (BenchmarkOneByOne, in turns with BenchmarkRemotePods on a machine
// with other work: 571 ms against 100, the best of 8).
type entries struct {
	socket *nl.NetlinkSocket
	seq    uint32
	index  map[string]uint32
}

// batchSize is how many messages one system call sends. Their sum has to fit the send
// buffer of a socket (wmem_default: 212,992 bytes), and each has 60 bytes.
const batchSize = 256

// applyEntries in the thread's namespace, and return how many were done.
func applyEntries(steps []dataplane.Step) (done int, err error) {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	defer socket.Close()
	// A kernel that does not answer is an error, not a hang. All of a batch may be refused.
	if err := errors.Join(socket.SetReceiveTimeout(&nl.SocketTimeoutTv), socket.SetReceiveBufferSize(8<<20, true)); err != nil {
		return 0, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return (&entries{socket: socket, index: map[string]uint32{}}).apply(steps)
}

// isEntry says whether apply takes that action.
func isEntry(action dataplane.Action) bool {
	switch action.(type) {
	case dataplane.ReplaceFDB, dataplane.DelFDB, dataplane.ReplaceNeighbour, dataplane.DelNeighbour:
		return true
	}
	return false
}

// message of a step.
type message struct {
	*nl.NetlinkRequest
	step int
}

// apply steps that are entries, in their order, and return how many were done.
func (e *entries) apply(steps []dataplane.Step) (done int, err error) {
	var messages []message
	for i := 0; i < len(steps); i++ {
		both := i+1 < len(steps) && inOneMessage(steps[i].Action, steps[i+1].Action)
		request, err := e.request(steps[i].Action, both)
		if err != nil && !asGoodAsDone(steps[i].Action, err) {
			return 0, fmt.Errorf("%s: %w", steps[i], err)
		}
		if err == nil {
			messages = append(messages, message{request, i})
		}
		if both {
			i++
		}
	}
	for batch := range slices.Chunk(messages, batchSize) {
		errs, err := e.send(batch)
		if err != nil {
			return batch[0].step, err
		}
		for i, m := range batch {
			if step := steps[m.step]; errs[i] != nil && !asGoodAsDone(step.Action, errs[i]) {
				return m.step, fmt.Errorf("%s: %w", step, errs[i])
			}
		}
	}
	return len(steps), nil
}

// inOneMessage says whether b, the bridge's entry, can go with a, the VXLAN device's.
func inOneMessage(a, b dataplane.Action) bool {
	self, ok := a.(dataplane.ReplaceFDB)
	master, also := b.(dataplane.ReplaceFDB)
	return ok && also && self.Dst.IsValid() && !master.Dst.IsValid() && self.Dev == master.Dev && self.MAC == master.MAC && master.Sticky
}

// request of an action; with both, an entry of a VXLAN device is one of its bridge, too.
func (e *entries) request(action dataplane.Action, both bool) (*nl.NetlinkRequest, error) {
	const replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	switch a := action.(type) {
	case dataplane.ReplaceFDB:
		return e.encode(unix.RTM_NEWNEIGH, replace, fdbHead(a.FDB, both), a.Dev, a.MAC, a.Dst)
	case dataplane.DelFDB:
		return e.encode(unix.RTM_DELNEIGH, 0, fdbHead(a.FDB, false), a.Dev, a.MAC, a.Dst)
	case dataplane.ReplaceNeighbour:
		return e.encode(unix.RTM_NEWNEIGH, replace, neighbourHead(a.Neighbour), a.Dev, a.MAC, a.IP)
	case dataplane.DelNeighbour:
		return e.encode(unix.RTM_DELNEIGH, 0, neighbourHead(a.Neighbour), a.Dev, a.MAC, a.IP)
	}
	return nil, fmt.Errorf("no such entry: %T", action)
}

func fdbHead(f dataplane.FDB, both bool) netlink.Ndmsg {
	head := netlink.Ndmsg{Family: unix.AF_BRIDGE, State: unix.NUD_NOARP | unix.NUD_REACHABLE, Flags: netlink.NTF_MASTER}
	switch {
	case both:
		head.Flags = netlink.NTF_SELF | netlink.NTF_MASTER | netlink.NTF_STICKY
	case f.Dst.IsValid():
		head.Flags = netlink.NTF_SELF
	case f.Sticky:
		head.Flags = netlink.NTF_MASTER | netlink.NTF_STICKY
	}
	return head
}

func neighbourHead(n dataplane.Neighbour) netlink.Ndmsg {
	head := netlink.Ndmsg{Family: unix.AF_INET, State: unix.NUD_PERMANENT}
	if n.IP.Is6() {
		head.Family = unix.AF_INET6
	}
	return head
}

func (e *entries) encode(kind, flags int, head netlink.Ndmsg, dev string, mac dataplane.MAC, dst netip.Addr) (*nl.NetlinkRequest, error) {
	if _, known := e.index[dev]; !known {
		index, err := indexOf(dev)
		if err != nil {
			return nil, err
		}
		e.index[dev] = uint32(index)
	}
	head.Index = e.index[dev]
	request := nl.NewNetlinkRequest(kind, flags)
	request.AddData(&head)
	request.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, mac[:]))
	if dst.IsValid() {
		request.AddData(nl.NewRtAttr(netlink.NDA_DST, dst.AsSlice()))
	}
	return request, nil
}

// send has the kernel do what the messages say, in their order, and returns for each how
// it went. The kernel goes on after an error. It reports every error, and of what went
// well only what is asked for: the last, by which all before it were done.
func (e *entries) send(batch []message) ([]error, error) {
	var b []byte
	first := e.seq + 1
	for i, m := range batch {
		e.seq++
		m.Seq = e.seq
		if i == len(batch)-1 {
			m.Flags |= unix.NLM_F_ACK
		}
		b = append(b, m.Serialize()...)
	}
	if err := unix.Sendto(e.socket.GetFd(), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("send %d messages to rtnetlink: %w", len(batch), err)
	}
	errs := make([]error, len(batch))
	for {
		answers, _, err := e.socket.Receive()
		if err != nil {
			return nil, fmt.Errorf("receive from rtnetlink: %w", err)
		}
		for _, a := range answers {
			if a.Header.Type != unix.NLMSG_ERROR || a.Header.Seq < first || a.Header.Seq > e.seq || len(a.Data) < 4 {
				continue
			}
			if errno := int32(binary.NativeEndian.Uint32(a.Data)); errno != 0 {
				errs[a.Header.Seq-first] = unix.Errno(-errno)
			}
			if a.Header.Seq == e.seq {
				return errs, nil
			}
		}
	}
}
