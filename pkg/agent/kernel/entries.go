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

// entries writes FDB entries and neighbours, of which there are tens of thousands. One
// system call sends hundreds of messages, and one answer says that all are done.
// netlink.NeighSet sends one message and waits for its answer. For 10,000 remote pods that
// took six times as long: 620 ms instead of 99 ms (BenchmarkLibrary and BenchmarkRemotePods,
// the quietest of three alternating runs on a machine with other work).
type entries struct {
	socket *nl.NetlinkSocket
	batch  []byte
	seq    uint32
	index  map[string]uint32
}

// batchSize is the number of messages in one system call. Together they must fit the send
// buffer of a socket (wmem_default: 212,992 bytes); each has at most 84 bytes.
const batchSize = 1024

// applyEntries writes entries in the thread's namespace and returns how many were done.
func applyEntries(steps []dataplane.Step) (done int, err error) {
	socket, err := openSocket()
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	// The kernel may refuse all messages of a batch, and answers each.
	if err := socket.SetReceiveBufferSize(8<<20, true); err != nil {
		return 0, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return (&entries{socket: socket, index: map[string]uint32{}}).apply(steps)
}

// openSocket opens a socket in the thread's namespace. If the kernel does not answer, the
// socket returns an error instead of blocking forever.
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

// isEntry says whether apply handles that action.
func isEntry(action dataplane.Action) bool {
	switch action.(type) {
	case dataplane.ReplaceFDB, dataplane.DelFDB, dataplane.ReplaceNeighbour, dataplane.DelNeighbour:
		return true
	}
	return false
}

// apply steps that are entries, in order, and return how many were done.
func (e *entries) apply(steps []dataplane.Step) (done int, err error) {
	for done < len(steps) && err == nil {
		n := 0
		n, err = e.applyBatch(steps[done:])
		done += n
	}
	return done, err
}

// applyBatch sends the first steps in one batch and returns how many were done.
func (e *entries) applyBatch(steps []dataplane.Step) (done int, err error) {
	var of []int // the step of each message
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

// inOneMessage says whether one message can carry a, an entry of the VXLAN device, and b,
// the same entry of the bridge.
func inOneMessage(a, b dataplane.Action) bool {
	self, ok := a.(dataplane.ReplaceFDB)
	master, also := b.(dataplane.ReplaceFDB)
	return ok && also && self.Dst.IsValid() && !master.Dst.IsValid() && self.Dev == master.Dev && self.MAC == master.MAC && master.Sticky
}

// add an action to the batch. With both, the message adds an entry of a VXLAN device to the
// bridge too.
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
	return fmt.Errorf("not an entry: %T", action)
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
	// An entry with a nexthop object is unique for its MAC address.
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

// send the batch of so many messages, and return an error or nil for each. The kernel
// executes them in order. After an error it reports the error and continues; it reports no
// successes. So the batch ends with one more message that only asks for an answer: this
// answer says that the kernel has finished.
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
