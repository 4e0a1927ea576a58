//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// batchSize is how many messages one system call sends. Their sum has to fit the send
// buffer of a socket (rmem: 212,992 bytes by default), and FDB messages have 60 bytes.
const batchSize = 256

// rtnetlink is a socket in the network namespace of the thread that made it.
type rtnetlink struct {
	fd     int
	seq    uint32
	buffer []byte
	index  map[string]uint32
	files  []*os.File // that messages name, open until the end
}

func dialRoute() (*rtnetlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	c := &rtnetlink{fd: fd, buffer: make([]byte, 1<<18), index: map[string]uint32{}}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		// A kernel that does not answer is an error, not a hang.
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1),
	)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return c, nil
}

func (c *rtnetlink) close() {
	_ = unix.Close(c.fd)
	for _, f := range c.files {
		_ = f.Close()
	}
}

// request is a message without its header.
type request struct {
	kind, flags uint16
	body        []byte
}

func (c *rtnetlink) append(b []byte, r request, flags uint16) []byte {
	c.seq++
	b = native.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(r.body)))
	b = native.AppendUint16(b, r.kind)
	b = native.AppendUint16(b, r.flags|flags|unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, c.seq)
	b = native.AppendUint32(b, 0)
	return append(b, r.body...)
}

// response is one message that the kernel sent.
type response struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// receive at least one message. What it yields is valid until the next call.
func (c *rtnetlink) receive() (iter.Seq[response], error) {
	n, _, err := unix.Recvfrom(c.fd, c.buffer, 0)
	for errors.Is(err, unix.EINTR) {
		n, _, err = unix.Recvfrom(c.fd, c.buffer, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("receive from rtnetlink: %w", err)
	}
	return messages(c.buffer[:n]), nil
}

func messages(b []byte) iter.Seq[response] {
	return func(yield func(response) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			size := int(native.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return
			}
			r := response{native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]), b[unix.SizeofNlMsghdr:size]}
			if !yield(r) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// errDumpInterrupted: something changed while it was read.
var errDumpInterrupted = errors.New("the kernel's tables changed while they were read")

// dump hands every answer to each.
func (c *rtnetlink) dump(kind uint16, body []byte, each func(body []byte)) error {
	if err := unix.Sendto(c.fd, c.append(nil, request{kind: kind, body: body}, unix.NLM_F_DUMP), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask rtnetlink: %w", err)
	}
	interrupted := false
	for {
		answers, err := c.receive()
		if err != nil {
			return err
		}
		for r := range answers {
			if r.seq != c.seq {
				continue // of an earlier dump that failed
			}
			interrupted = interrupted || r.flags&unix.NLM_F_DUMP_INTR != 0
			switch r.kind {
			case unix.NLMSG_DONE:
				if interrupted {
					return errDumpInterrupted
				}
				return nil
			case unix.NLMSG_ERROR:
				return ackError(r)
			default:
				each(r.body)
			}
		}
	}
}

// send has the kernel do the requests, in their order, and returns for each how it went.
// The kernel goes on after an error. It reports every error, and of what went well only
// what is asked for: the last, by which all before it were done.
func (c *rtnetlink) send(requests []request) ([]error, error) {
	errs := make([]error, len(requests))
	for start := 0; start < len(requests); start += batchSize {
		end := min(start+batchSize, len(requests))
		first := c.seq + 1
		var b []byte
		for i := start; i < end; i++ {
			flags := uint16(0)
			if i == end-1 {
				flags = unix.NLM_F_ACK
			}
			b = c.append(b, requests[i], flags)
		}
		if err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return errs, fmt.Errorf("send %d messages to rtnetlink: %w", end-start, err)
		}
		for answered := false; !answered; {
			answers, err := c.receive()
			if err != nil {
				return errs, err
			}
			for r := range answers {
				if r.kind == unix.NLMSG_ERROR && r.seq >= first && r.seq <= c.seq {
					errs[start+int(r.seq-first)] = ackError(r)
					answered = answered || r.seq == c.seq
				}
			}
		}
	}
	return errs, nil
}

// ackError is nil for an acknowledgement, else the error with the kernel's own words.
func ackError(r response) error {
	if len(r.body) < 4 {
		return errors.New("rtnetlink sent a short message")
	}
	errno := int32(native.Uint32(r.body))
	if errno == 0 {
		return nil
	}
	err := error(unix.Errno(-errno))
	const head = 4 + unix.SizeofNlMsghdr // the request follows only if it is not capped
	if r.flags&unix.NLM_F_ACK_TLVS != 0 && len(r.body) > head {
		for kind, value := range attributes(r.body[head:]) {
			if kind == unix.NLMSGERR_ATTR_MSG {
				err = fmt.Errorf("%w (%s)", err, text(value))
			}
		}
	}
	return err
}

// indexOf a link by its name.
func (c *rtnetlink) indexOf(name string) (uint32, error) {
	if index, ok := c.index[name]; ok {
		return index, nil
	}
	r := request{kind: unix.RTM_GETLINK, body: attr(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, append([]byte(name), 0))}
	if err := unix.Sendto(c.fd, c.append(nil, r, 0), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask rtnetlink for %s: %w", name, err)
	}
	for {
		answers, err := c.receive()
		if err != nil {
			return 0, err
		}
		for r := range answers {
			switch {
			case r.seq != c.seq:
			case r.kind == unix.NLMSG_ERROR:
				return 0, fmt.Errorf("look for link %s: %w", name, ackError(r))
			case r.kind == unix.RTM_NEWLINK:
				c.index[name] = native.Uint32(r.body[4:])
				return c.index[name], nil
			}
		}
	}
}

// attr appends an attribute.
func attr(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(4+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// nest is an attribute that is made of attributes.
func nest(b []byte, kind uint16, value []byte) []byte { return attr(b, kind|unix.NLA_F_NESTED, value) }

func u32(v uint32) []byte { return native.AppendUint32(nil, v) }

func u8(on bool) []byte {
	if on {
		return []byte{1}
	}
	return []byte{0}
}

// attributes of a message, or of an attribute that is made of some.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			size := int(native.Uint16(b))
			if size < 4 || size > len(b) || !yield(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:size]) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// text of a string that ends with a zero byte.
func text(b []byte) string { return unix.ByteSliceToString(b) }
