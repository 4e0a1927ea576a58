//go:build linux && kernel

package veth

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/iface"
)

func TestAdd(t *testing.T) {
	l := newLab(t)
	p, err := Add(blue, l.pod)
	must(t, err)
	l.isWhole("new", p)
	must(t, Up(p))
	must(t, Check(blue, l.pod))
	up := strings.Replace(whole, "down", "up", 1) // without an address
	if got := l.dump(); got != up {
		t.Errorf("got\n%swant\n%s", got, up)
	}
	again, err := Add(blue, l.pod)
	must(t, err)
	if want := (Port{blue.Owner, p.Name, p.Index, true}); again != want || l.dump() != up {
		t.Errorf("again: got %+v, want %+v\n%s", again, want, l.dump())
	}
	all, err := List()
	if err != nil || len(all) != 1 || all[0] != again {
		t.Errorf("listed %+v, %v", all, err)
	}
	must(t, Del(blue.HostInterface()))
	must(t, Del(blue.HostInterface()))
	if got := l.dump(); got != "" {
		t.Errorf("after Del\n%s", got)
	}
}

func TestAddIPv6(t *testing.T) {
	for _, off := range []string{"0", "1"} {
		l := newLab(t)
		l.inPod(func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte(off), 0o644)
		})
		p, err := Add(v6(), l.pod)
		must(t, err)
		must(t, Up(p))
		must(t, Check(v6(), l.pod))
		if got, want := l.dump(), `node pod247a35d2cb39 veth 1450 up "default.blue 8f31 net1 5b0c a"
pod net1 veth 0a:58:c0:a8:00:02 1450 up fd00:10::2/64
pod route fd00:10::/60 dev net1
pod route fd00:10::/64 dev net1
`; got != want {
			t.Errorf("disable_ipv6=%s: got\n%swant\n%s", off, got, want)
		}
		l.inPod(func() error {
			inner, err := netlink.LinkByName("net1")
			if err != nil {
				return err
			}
			addresses, err := netlink.AddrList(inner, netlink.FAMILY_V6)
			for _, a := range addresses {
				if !a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE != 0 {
					t.Errorf("%s waits for the detection of duplicates", a.IP)
				}
			}
			return err
		})
	}
}

// A pair of an attempt that died, or of another attachment, is made anew.
func TestRemainders(t *testing.T) {
	outer := func() netlink.Link {
		link, err := netlink.LinkByName(blue.HostInterface())
		must(t, err)
		return link
	}
	inner := func(change func(netlink.Link) error) func(lab) {
		return func(l lab) {
			l.inPod(func() error {
				link, err := netlink.LinkByName("net1")
				return errors.Join(err, change(link))
			})
		}
	}
	for _, tt := range []struct {
		name, differs string
		died          func(lab)
	}{
		{"before the owner", `pod247a35d2cb39 on the node belongs to ""`, func(lab) { must(t, netlink.LinkSetAlias(outer(), "")) }},
		{"of another Network", `pod247a35d2cb39 on the node belongs to "default.green 8f31 net1 5b0c a"`, func(lab) {
			must(t, netlink.LinkSetAlias(outer(), "default.green 8f31 net1 5b0c a"))
		}},
		{"of another pod", `pod247a35d2cb39 on the node belongs to "default.blue aaaa net1 5b0c a"`, func(lab) {
			must(t, netlink.LinkSetAlias(outer(), "default.blue aaaa net1 5b0c a"))
		}},
		{"MTU on the node", "pod247a35d2cb39 on the node has MTU 1400, not 1450", func(lab) { must(t, netlink.LinkSetMTU(outer(), 1400)) }},
		{"MTU", "it has MTU 1400, not 1450", inner(func(i netlink.Link) error { return netlink.LinkSetMTU(i, 1400) })},
		{"MAC", "it has the MAC address 0a:58:c0:a8:00:03, not 0a:58:c0:a8:00:02", inner(func(i netlink.Link) error {
			return netlink.LinkSetHardwareAddr(i, []byte{0x0a, 0x58, 192, 168, 0, 3})
		})},
		{"down", "it is down", inner(netlink.LinkSetDown)},
		{"no address", "it does not have the address 192.168.0.2/24", inner(func(i netlink.Link) error {
			return netlink.AddrDel(i, &netlink.Addr{IPNet: iface.IPNet(blue.Address)})
		})},
		{"no route", "it has no route to 192.168.0.0/23", inner(func(i netlink.Link) error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: i.Attrs().Index, Dst: iface.IPNet(blue.Routes[0]), Scope: netlink.SCOPE_LINK})
		})},
		{"route of the address", "it has no route to 192.168.0.0/24", inner(func(i netlink.Link) error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: i.Attrs().Index, Dst: iface.IPNet(blue.Address.Masked()), Scope: netlink.SCOPE_LINK})
		})},
		{"another name", "it is gone", inner(func(i netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(i), netlink.LinkSetName(i, "net9"))
		})},
		{"another sandbox", "pod247a35d2cb39 on the node leads to another network namespace", func(lab) {
			must(t, Del(blue.HostInterface()))
			node, err := netns.Get()
			must(t, err)
			defer node.Close()
			before := namespace(t)
			must(t, netns.Set(node))
			_, err = Add(blue, before)
			must(t, err)
		}},
	} {
		l := newLab(t)
		p, err := Add(blue, l.pod)
		must(t, err)
		must(t, Up(p))
		tt.died(l)
		want := "net1 of pod UID 8f31 on default.blue: " + tt.differs
		if err := Check(blue, l.pod); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", tt.name, err, want)
		}
		p, err = Add(blue, l.pod)
		must(t, err)
		l.isWhole(tt.name, p)
	}
}

func TestCheckOfNothing(t *testing.T) {
	l := newLab(t)
	if err := Check(blue, l.pod); err == nil || err.Error() != "interface pod247a35d2cb39 of the node, for net1 of pod UID 8f31: Link not found" {
		t.Error(err)
	}
	_, err := Add(blue, l.pod)
	must(t, err)
	if err := Check(blue, l.pod); err == nil || err.Error() != "net1 of pod UID 8f31 on default.blue: pod247a35d2cb39 on the node is down" {
		t.Error(err)
	}
}

// The pod's end was moved away, and another program made an interface with its name.
func TestAnotherInItsPlace(t *testing.T) {
	l := newLab(t)
	_, err := Add(blue, l.pod)
	must(t, err)
	l.inPod(func() error {
		inner, err := netlink.LinkByName("net1")
		other := netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "net1", MTU: blue.MTU, HardwareAddr: blue.MAC[:]}, PeerName: "other"}
		return errors.Join(err, netlink.LinkSetDown(inner), netlink.LinkSetName(inner, "net9"), netlink.LinkAdd(&other), netlink.LinkSetUp(&other),
			netlink.AddrAdd(&other, &netlink.Addr{IPNet: iface.IPNet(blue.Address)}))
	})
	if err := Check(blue, l.pod); err == nil || err.Error() != "net1 of pod UID 8f31 on default.blue: it does not lead to pod247a35d2cb39 on the node" {
		t.Error(err)
	}
	if _, err := Add(blue, l.pod); err == nil || err.Error() != "attach net1 of pod UID 8f31 to default.blue: the pod has an interface net1 that another program made: file exists" {
		t.Error(err)
	}
}

// Nothing of another program is changed, and nothing remains of the attempt.
func TestRefusals(t *testing.T) {
	bridge := func(name string) error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}})
	}
	for _, tt := range []struct {
		name, want string
		before     func(*lab, *Pair)
	}{
		{"interface of the pod", "attach net1 of pod UID 8f31 to default.blue: the pod has an interface net1 that another program made: file exists", func(l *lab, _ *Pair) {
			l.inPod(func() error { return bridge("net1") })
		}},
		{"interface of the node", "interface pod247a35d2cb39 exists on the node, but another program made it: remove it", func(*lab, *Pair) { must(t, bridge(blue.HostInterface())) }},
		{"namespace of the node", "attach net1 of container 5b0c: its network namespace is that of the node", func(l *lab, _ *Pair) {
			var err error
			l.pod, err = os.Open("/proc/thread-self/ns/net")
			must(t, err)
		}},
		{"long owner", fmt.Sprintf("attach net1 of container 5b0c: the kernel cannot store the owner %q", strings.Repeat("n", 250)+" 8f31 net1 5b0c a"),
			func(_ *lab, p *Pair) { p.Network = strings.Repeat("n", 250) }},
		{"space in the owner", `attach net1 of container 5b0c: the kernel cannot store the owner "default.blue a b net1 5b0c a"`, func(_ *lab, p *Pair) { p.PodUID = "a b" }},
		{"address", "attach net1 of pod UID 8f31 to default.blue: add the address ff02::1/64: cannot assign requested address", func(_ *lab, p *Pair) {
			p.Address = netip.MustParsePrefix("ff02::1/64")
		}},
		{"route", "attach net1 of pod UID 8f31 to default.blue: add the route to 192.168.0.1/23: invalid argument", func(_ *lab, p *Pair) {
			p.Routes = []netip.Prefix{netip.MustParsePrefix("192.168.0.1/23")}
		}},
	} {
		l, p := newLab(t), blue
		tt.before(&l, &p)
		before := l.dump()
		if _, err := Add(p, l.pod); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got  %v\nwant %s", tt.name, err, tt.want)
		}
		if after := l.dump(); after != before {
			t.Errorf("%s: before\n%safter\n%s", tt.name, before, after)
		}
	}
	if err := func() error { newLab(t); must(t, bridge(blue.HostInterface())); return Del(blue.HostInterface()) }(); err == nil || err.Error() != "interface pod247a35d2cb39 is not a veth: remove it by hand" {
		t.Error(err)
	}
}

// List has the pairs without an owner too, and nothing else.
func TestList(t *testing.T) {
	l := newLab(t)
	green := blue
	green.Interface, green.Network = "net2", "default.green"
	green.MAC[5]++
	_, err := Add(blue, l.pod)
	must(t, err)
	_, err = Add(green, l.pod)
	must(t, err)
	for _, name := range []string{"veth12345678", "pod2ffffffffffff"[:15], "pod20000000000"} {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name[1:] + "x"}))
	}
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pod2eeeeeeeeeee"}}))
	outer, err := netlink.LinkByName(green.HostInterface())
	must(t, err)
	must(t, netlink.LinkSetAlias(outer, blue.alias())) // the alias of another name says nothing
	all, err := List()
	must(t, err)
	var text []string
	for _, p := range all {
		text = append(text, fmt.Sprintf("%s %q up=%v", p.Name, strings.TrimSpace(p.alias()), p.Up))
	}
	if got, want := strings.Join(text, "\n"), blue.HostInterface()+` "default.blue 8f31 net1 5b0c a" up=false`+"\n"+green.HostInterface()+` "" up=false`+"\n"+`pod2fffffffffff "" up=false`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The kernel removes the pairs with the pod's namespace.
	_ = l.pod.Close()
	waitFor(t, func() bool {
		one, err1 := iface.ByName(blue.HostInterface())
		other, err2 := iface.ByName(green.HostInterface())
		return one == nil && other == nil && err1 == nil && err2 == nil
	})
	must(t, Del(blue.HostInterface()))
	must(t, Del(cni.ID{ContainerID: "unknown", Interface: "net1"}.HostInterface()))
}

// The kernel keeps 255 bytes. The pod's name loses the bytes that do not fit.
func TestLongPodName(t *testing.T) {
	for _, tt := range []struct {
		network, pod, stored string
		other                string // another pod, with another name
	}{
		{"default.blue", "web-1", "web-1", "web-10"},
		{"default." + strings.Repeat("n", 220), strings.Repeat("p", 200), strings.Repeat("p", 11), "ppp"},
		{"default." + strings.Repeat("n", 231), "web-1", "", "web-1"},
	} {
		l, p := newLab(t), blue
		p.Network, p.PodName = tt.network, tt.pod
		_, err := Add(p, l.pod)
		must(t, err)
		_, err = Add(p, l.pod) // it is complete
		must(t, err)
		all, err := List()
		must(t, err)
		if o := all[0].Owner; o.PodName != tt.stored || o.HasPodName(tt.pod) != (tt.stored != "") || o.HasPodName(tt.other) {
			t.Errorf("pod %s on %s: stored are %d bytes, %q", tt.pod, tt.network, len(all[0].alias()), o.PodName)
		}
	}
}
