//go:build linux && kernel

package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// onBlue is a node that knows those pods of Network blue: 192.168.0.2 and so on.
func onBlue(t testing.TB, names ...string) (n *labNode, pods []*labPod) {
	t.Helper()
	return onBlueWith(t, ipv4.transit, names...)
}

// onBlueWith has that range of transit addresses.
func onBlueWith(t testing.TB, transit netip.Prefix, names ...string) (n *labNode, pods []*labPod) {
	t.Helper()
	l := newLab(t, 1)
	l.state.Transit = transit
	l.nodes[0].stop()
	l.nodes[0].start()
	blue := l.network("blue", blueVNI, "192.168.0.0/16")
	for i, name := range names {
		pods = append(pods, l.nodes[0].pod(name, blue, ipv4.pod(byte(i+2)).String()))
	}
	l.sync()
	return l.nodes[0], pods
}

// link of the node; nil if there is none with this name.
func (n *labNode) link(name string) (link netlink.Link) {
	n.Helper()
	n.in(n.name, func() error {
		var err error
		if link, err = netlink.LinkByName(name); errors.As(err, new(netlink.LinkNotFoundError)) {
			link, err = nil, nil
		}
		return err
	})
	return link
}

func (p *labPod) link() netlink.Link {
	p.Helper()
	return p.on.link(p.attachment().HostInterface())
}

// entries of the maps for pods, as text. Interfaces have their names.
func (n *labNode) entries() string {
	n.Helper()
	programs, err := bpf.Load(n.bpf)
	must(n, err)
	defer programs.Close()
	is, _, err := programs.Read()
	must(n, err)
	name := func(index tables.PortKey) string {
		for _, p := range n.pods {
			of := cni.ID{ContainerID: "c-" + p.Name, Interface: "net1"}
			if link := n.link(of.HostInterface()); link != nil && link.Attrs().Index == int(index) {
				return p.Name
			}
		}
		return fmt.Sprint("gone ", index)
	}
	var lines []string
	for index, p := range is.Ports {
		lines = append(lines, fmt.Sprintf("port %s: %s\n", name(index), p.IP))
	}
	for _, p := range is.Places {
		if p.Interface != 0 {
			lines = append(lines, fmt.Sprintf("place %s: %s\n", p.IP, name(p.Interface)))
		} else {
			lines = append(lines, fmt.Sprintf("place %s: %s\n", p.IP, p.Node))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// expect the entries of the maps.
func (n *labNode) expect(want string) {
	n.Helper()
	if got := n.entries(); got != want {
		n.Errorf("the maps have\n%swant\n%s", got, want)
	}
}

// del as pod2-cni asks for.
func (n *labNode) del(a cni.Attachment) {
	n.Helper()
	n.in(n.name, func() error { return n.node.Del(n.Context(), a) })
}

// Events do not wait while a comparison reads the maps, and entries that they write meanwhile do not differ.
func TestEventsWhileMapsAreRead(t *testing.T) {
	t.Parallel()
	n, _ := onBlue(t, "blue1")
	far := func(slice string, from, count int) dataplane.Slice {
		s := dataplane.Slice{Namespace: "default", Network: "blue", Name: slice}
		for i := from; i < from+count; i++ {
			s.Locations = append(s.Locations, dataplane.Location{Address: netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), Host: addr("10.9.0.2")})
		}
		return s
	}
	n.node.SetSlice(far("blue-many", 1000, 20_000))
	n.step(true)
	young := far("blue-young", 30_000, 1)
	events, stop := context.WithCancel(t.Context())
	defer stop()
	passed := make(chan int, 1)
	go func() {
		count := 0
		for events.Err() == nil {
			n.node.SetSlice(young)
			n.node.DeleteSlice(young)
			n.node.mu.Lock()
			if n.node.recording && len(n.node.recorded) > 0 {
				count++
			}
			n.node.mu.Unlock()
		}
		passed <- count
	}()
	for range 10 {
		if _, changes := n.step(true); changes != 0 {
			t.Errorf("%d entries differed", changes)
		}
	}
	if stop(); <-passed == 0 {
		t.Error("no event passed while the maps were read")
	}
}

// The duration of a comparison is without the time that it waits for an Add.
func TestComparisonWaitsForAdd(t *testing.T) {
	t.Parallel()
	n, _ := onBlue(t)
	n.node.interfaces.Lock()
	took := make(chan time.Duration)
	go func() {
		var d time.Duration
		if err := in(n.namespaces[n.name], func() (err error) { _, d, err = n.node.Sync(true); return err }); err != nil {
			t.Error(err)
		}
		took <- d
	}()
	waits := func() bool {
		stacks := make([]byte, 1<<20)
		return slices.ContainsFunc(strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n"), func(stack string) bool {
			return strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, "(*Node).Sync")
		})
	}
	for !waits() {
		runtime.Gosched()
	}
	unlocked := time.Now()
	n.node.interfaces.Unlock()
	if got, most := <-took, time.Since(unlocked); got > most {
		t.Errorf("it took %s, in the %s after the Add", got, most)
	}
}
