//go:build linux && kernel

package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

// node is a network namespace, and the desired state of a node with Networks of both families.
type node struct {
	ns     netns.NsHandle
	kernel *Kernel
	want   dataplane.Host
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{kernel: New(t.TempDir()), ns: newNamespace(t), want: dataplane.Host{Transits: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16"), dataplane.Transit6}}}
	n.want.Table = table(t)
	return n
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		ns, err := netns.New()
		if err == nil { // the kernel copies the machine's value
			err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o600)
		}
		if err != nil {
			ns = -1
		}
		made <- ns
	}()
	ns := <-made
	if ns < 0 {
		t.Fatal("no network namespace: this test needs root")
	}
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

func (n *node) in(t *testing.T, f func() error) {
	t.Helper()
	if err := iface.Inside(n.ns, f); err != nil {
		t.Fatal(err)
	}
}

// apply the desired state, and check that a second time has nothing to do.
func (n *node) apply(t *testing.T) string {
	t.Helper()
	var done, again dataplane.Plan
	n.in(t, func() (err error) {
		if done, err = n.kernel.Apply(n.want); err == nil {
			again, err = n.kernel.Apply(n.want)
		}
		return err
	})
	if len(again) > 0 {
		t.Errorf("after\n%sis still to do\n%s", done, again)
	}
	return done.String()
}

// on returns a function that does something to an interface.
func on(name string, do func(netlink.Link) error) func() error {
	return func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return do(link)
	}
}

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
