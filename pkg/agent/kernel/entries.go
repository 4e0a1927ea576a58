//go:build linux

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// entries are FDB entries and neighbours, of which there are tens of thousands: hundreds
// of messages go in one system call, and one answer says that all are done. One by one,
// as netlink.NeighSet sends them and waits for each, those of 10,000 remote pods took six
// times as long: 620 ms against 99 (BenchmarkLibrary, BenchmarkRemotePods; the quietest of
// three runs that took turns on a machine with other work).
type entries struct {
	socket *nl.NetlinkSocket
	batch  []byte
	seq    uint32
	index  map[string]uint32
}

// batchSize is how many messages one system call sends. Their sum has to fit the send
// buffer of a socket (wmem_default: 212,992 bytes), and each has at most 84 bytes.
const batchSize = 1024

// applyEntries in the thread's namespace, and return how many were done.
func applyEntries(steps []dataplane.Step) (done int, err error) {
	socket, err := openSocket()
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	// All of a batch may be refused.
	if err := socket.SetReceiveBufferSize(8<<20, true); err != nil {
		return 0, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return (&entries{socket: socket, index: map[string]uint32{}}).apply(steps)
}

// openSocket of the thread's namespace. A kernel that does not answer is an error, not a
// hang.
func openSocket() (*nl.NetlinkSocket, error) {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	if err := socket.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return socket, nil
}

// isEntry says whether apply takes that action.
func isEntry(action dataplane.Action) bool {
	switch action.(type) {
	case dataplane.ReplaceFDB, dataplane.DelFDB, dataplane.ReplaceNeighbour, dataplane.DelNeighbour:
		return true
	}
	return false
}

// apply steps that are entries, in their order, and return how many were done.
func (e *entries) apply(steps []dataplane.Step) (done int, err error) {
	for done < len(steps) && err == nil {
		n := 0
		n, err = e.applyBatch(steps[done:])
		done += n
	}
	return done, err
}

// applyBatch of the first steps, and return how many were done.
func (e *entries) applyBatch(steps []dataplane.Step) (done int, err error) {
	var of []int // of which step each message is
	e.batch = e.batch[:0]
	next := 0
	for next < len(steps) && len(of) < batchSize {
		both := next+1 < len(steps) && inOneMessage(steps[next].Action, steps[next+1].Action)
		switch err := e.add(steps[next].Action, both); {
		case err == nil:
			of = append(of, next)
		case !asGoodAsDone(steps[next], err):
			return 0, fmt.Errorf("%s: %w", steps[next], err)
		}
		if next++; both {
			next++
		}
	}
	errs, err := e.send(len(of))
	if err != nil {
		return 0, err
	}
	for i, err := range errs {
		if step := steps[of[i]]; err != nil && !asGoodAsDone(step, err) {
			return of[i], fmt.Errorf("%s: %w", step, err)
		}
	}
	return next, nil
}

// inOneMessage says whether b, the bridge's entry, can go with a, the VXLAN device's.
func inOneMessage(a, b dataplane.Action) bool {
	self, ok := a.(dataplane.ReplaceFDB)
	master, also := b.(dataplane.ReplaceFDB)
	return ok && also && self.Dst.IsValid() && !master.Dst.IsValid() && self.Dev == master.Dev && self.MAC == master.MAC && master.Sticky
}

// add an action to the batch; with both, an entry of a VXLAN device is one of its bridge,
// too.
func (e *entries) add(action dataplane.Action, both bool) error {
	const replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	switch a := action.(type) {
	case dataplane.ReplaceFDB:
		return e.encode(unix.RTM_NEWNEIGH, replace, fdbHead(a.FDB, both), a.Dev, a.MAC, a.Dst, a.Own)
	case dataplane.DelFDB:
		return e.encode(unix.RTM_DELNEIGH, 0, fdbHead(a.FDB, false), a.Dev, a.MAC, a.Dst, a.Own)
	case dataplane.ReplaceNeighbour:
		return e.encode(unix.RTM_NEWNEIGH, replace, neighbourHead(a.Neighbour), a.Dev, a.MAC, a.IP, dataplane.Detour{})
	case dataplane.DelNeighbour:
		return e.encode(unix.RTM_DELNEIGH, 0, neighbourHead(a.Neighbour), a.Dev, a.MAC, a.IP, dataplane.Detour{})
	}
	return fmt.Errorf("no such entry: %T", action)
}

func fdbHead(f dataplane.FDB, both bool) netlink.Ndmsg {
	head := netlink.Ndmsg{Family: unix.AF_BRIDGE, State: unix.NUD_NOARP | unix.NUD_REACHABLE, Flags: netlink.NTF_MASTER}
	switch {
	case both:
		head.Flags = netlink.NTF_SELF | netlink.NTF_MASTER | netlink.NTF_STICKY
	case f.OfVXLAN():
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

func (e *entries) encode(kind, flags uint16, head netlink.Ndmsg, dev string, mac dataplane.MAC, dst netip.Addr, own dataplane.Detour) error {
	if _, known := e.index[dev]; !known {
		index, err := indexOf(dev)
		if err != nil {
			return err
		}
		e.index[dev] = uint32(index)
	}
	head.Index = e.index[dev]
	e.seq++
	request := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: e.seq}}
	request.AddRawData(head.Serialize())
	request.AddRawData(nl.NewRtAttr(netlink.NDA_LLADDR, mac[:]).Serialize())
	if dst.IsValid() {
		request.AddRawData(nl.NewRtAttr(netlink.NDA_DST, dst.AsSlice()).Serialize())
	}
	// One with a nexthop object is known by its MAC address, for which there is no other.
	if own.VNI != 0 {
		request.AddRawData(nl.NewRtAttr(netlink.NDA_VNI, nl.Uint32Attr(own.VNI)).Serialize())
	}
	if own.Interface != 0 {
		request.AddRawData(nl.NewRtAttr(netlink.NDA_IFINDEX, nl.Uint32Attr(own.Interface)).Serialize())
	}
	if own.UDPPort != 0 {
		request.AddRawData(nl.NewRtAttr(netlink.NDA_PORT, binary.BigEndian.AppendUint16(nil, own.UDPPort)).Serialize())
	}
	e.batch = append(e.batch, request.Serialize()...)
	return nil
}

// send the batch, of so many messages, which the kernel does in their order, and return
// for each how it went. The kernel goes on after an error, and reports it. Of what went
// well it says nothing: that all is done says the answer to one more message, which asks
// for an answer and for nothing else.
func (e *entries) send(many int) ([]error, error) {
	first := e.seq - uint32(many) + 1
	e.seq++
	end := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: unix.NLMSG_NOOP, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: e.seq}}
	e.batch = append(e.batch, end.Serialize()...)
	if err := unix.Sendto(e.socket.GetFd(), e.batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("send %d messages to rtnetlink: %w", many, err)
	}
	errs := make([]error, many)
	for {
		answers, _, err := e.socket.Receive()
		if err != nil {
			return nil, fmt.Errorf("receive from rtnetlink: %w", err)
		}
		for _, a := range answers {
			switch {
			case a.Header.Type != unix.NLMSG_ERROR || len(a.Data) < 4:
			case a.Header.Seq == e.seq:
				return errs, nil
			case a.Header.Seq >= first && a.Header.Seq < e.seq:
				errs[a.Header.Seq-first] = unix.Errno(-int32(binary.NativeEndian.Uint32(a.Data)))
			}
		}
	}
}
