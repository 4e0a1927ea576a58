//go:build e2e

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// requireNoFlood captures all packets between nodes while pods ask for addresses that exist and
// that do not, and broadcast to their Network. VXLAN packets must contain only frames to a pod,
// with the VNI of its Network, sent to the node of that pod. Pods of the other Network have the
// same addresses, so a frame with the wrong VNI would reach a pod.
func requireNoFlood(t *testing.T, ns string, sides []side) {
	t.Helper()
	nodes := map[string]string{}
	for _, name := range []string{"node1", "node2", "node3"} {
		nodes[name] = run(t, "", "get", "node", name, "--output=jsonpath={.status.addresses[0].address}")
	}
	type place struct{ node, vni, mac string }
	home := map[place]bool{}
	for _, s := range sides {
		vni := run(t, ns, "get", "network", s.network, "--output=jsonpath={.status.vni}")
		for _, p := range s.pods {
			home[place{nodes[p.Node], vni, p.Published[s.network].MAC}] = true
		}
	}
	stop := listen(t, []string{"node1", "node2", "node3"})
	for _, s := range sides {
		from := s.names()[0]
		for _, to := range s.names()[1:] {
			probe(t, ns, from, "get", s.address(to)+":8080")
		}
		probe(t, ns, from, "get", "192.168.77.77:8080") // no pod has it: ARP gets no answer
		probe(t, ns, from, "ping", "-count=20", "-timeout=100ms", "192.168.255.255:9")
	}
	frames := stop()
	if len(frames) < 10 {
		t.Fatalf("captured %d VXLAN packets", len(frames))
	}
	strays := 0
	for _, f := range frames {
		if !home[place{f.node.String(), fmt.Sprint(f.vni), f.to.String()}] {
			if strays++; strays < 5 {
				t.Errorf("a frame from %s to %s with VNI %d was sent to node %s, where no pod has that address", f.from, f.to, f.vni, f.node)
			}
		}
	}
	t.Logf("%d frames passed between nodes, %d of them without a receiver there", len(frames), strays)
}

// frame is the content of a VXLAN packet.
type frame struct {
	node     netip.Addr // the destination of the packet
	vni      uint32
	to, from net.HardwareAddr
}

// listen captures the packets that enter the bridge between the nodes through these ports, until
// stop is called.
func listen(t *testing.T, ports []string) (stop func() []frame) {
	t.Helper()
	frames, done := make(chan []frame), make(chan bool)
	for _, port := range ports {
		link, err := net.InterfaceByName(port)
		if err != nil {
			t.Fatal(err)
		}
		all := uint16(unix.ETH_P_ALL)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all<<8|all>>8))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: link.Index}); err != nil {
			t.Fatal(err)
		}
		go func() { frames <- capture(os.NewFile(uintptr(fd), port), done) }()
	}
	return func() []frame {
		time.Sleep(100 * time.Millisecond) // for packets on their way; a late packet is only missing, not a failure
		close(done)
		var all []frame
		for range ports {
			all = append(all, <-frames...)
		}
		return all
	}
}

func capture(socket *os.File, done chan bool) []frame {
	defer socket.Close()
	var frames []frame
	buffer := make([]byte, 64<<10)
	for {
		_ = socket.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := socket.Read(buffer)
		if f, ok := parseVXLAN(buffer[:max(n, 0)]); ok {
			frames = append(frames, f)
		}
		select {
		case <-done:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return frames
			}
		default:
		}
	}
}

// parseVXLAN reads an Ethernet frame with IPv4 without options, UDP to port 4789 and VXLAN.
func parseVXLAN(b []byte) (frame, bool) {
	const ethernet, ip, udp, vxlan = 14, 20, 8, 8
	inner := ethernet + ip + udp + vxlan
	if len(b) < inner+ethernet || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_IP || b[ethernet] != 0x45 ||
		b[ethernet+9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[ethernet+ip+2:]) != 4789 {
		return frame{}, false
	}
	mac := func(at int) net.HardwareAddr { return append(net.HardwareAddr{}, b[at:at+6]...) }
	return frame{
		node: netip.AddrFrom4([4]byte(b[ethernet+16 : ethernet+20])),
		vni:  binary.BigEndian.Uint32(b[ethernet+ip+udp+4:]) >> 8,
		to:   mac(inner), from: mac(inner + 6),
	}, true
}
