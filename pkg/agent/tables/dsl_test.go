package tables

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// world has the events of node n1 twice: Desired had them one by one, and the rest is their sum.
// maps are the maps of the kernel, which had each change.
type world struct {
	desired, twin *Desired
	local         netip.Addr
	pods          map[name]dataplane.Pod
	slices        map[[3]string]dataplane.Slice // by namespace, Network and name
	ports         map[PortKey]LocalPort
	maps          Tables
	// range4 has transits, the IPv4 transit addresses of ports.
	range4   netip.Prefix
	transits map[PortKey]netip.Addr
}

func newWorld() *world {
	return &world{desired: New(), twin: New(), pods: map[name]dataplane.Pod{}, slices: map[[3]string]dataplane.Slice{},
		ports: map[PortKey]LocalPort{}, maps: Empty(), transits: map[PortKey]netip.Addr{}}
}

// withTransits has a range of that many bits, from 100.64.0.0 on.
func withTransits(bits int) *world {
	w := newWorld()
	w.range4 = netip.PrefixFrom(netip.MustParseAddr("100.64.0.0"), bits)
	w.desired.SetTransits(w.range4, nil)
	w.twin.SetTransits(w.range4, nil)
	return w
}

// assign a transit address to a new port: the one at its index, or the first free one after it.
func (w *world) assign(index PortKey) {
	var all []netip.Addr
	for a := w.range4.Addr(); w.range4.Contains(a); a = a.Next() {
		all = append(all, a)
	}
	delete(w.transits, index)
	for i := range all {
		address := all[(int(index)+i)%len(all)]
		if !slices.Contains(slices.Collect(maps.Values(w.transits)), address) {
			w.transits[index] = address
			return
		}
	}
}

// event happens. Each is one line; with a - the thing is deleted:
//
//	node 10.0.0.1 fd0a::1                      node-           this node
//	nodes s1 10.0.0.2 10.0.0.3=10.0.0.2        nodes- s1       addresses of nodes, with hosts
//	network blue 1001 192.168.0.0/24           network- blue   the slice 0 of blue; gateway by default; also gateway=, mtu=1400, egress=NAT
//	slice blue 1 192.168.0.3=10.0.0.2          slice- blue 1   one without properties
//	leave blue                                                 all slices of blue
//	pod a blue=192.168.0.2 green=10.1.0.2      pod- a          also uid=, created=5, mac= and bits= (of all)
//	port 7 u-a blue                            port- 7
//
// Most also take ns=other, and slices take owner=.
func (w *world) event(t testing.TB, line string) []Change {
	t.Helper()
	var words []string
	options := map[string]string{"ns": "default", "owner": "u1"}
	s := dataplane.Slice{}
	for _, word := range strings.Fields(line) {
		key, value, ok := strings.Cut(word, "=")
		if address, err := netip.ParseAddr(key); err == nil && words[0] != "node" {
			l := dataplane.Location{Address: address, Host: address}
			if ok {
				l.Host = netip.MustParseAddr(value)
			}
			s.Locations = append(s.Locations, l)
		} else if ok {
			options[key] = value
		} else {
			words = append(words, word)
		}
	}
	slices.SortFunc(s.Locations, dataplane.Location.Compare)
	words = append(words, "", "")
	key := name{options["ns"], words[1]}
	index, _ := strconv.ParseUint(words[1], 10, 32)
	switch words[0] {
	case "node", "node-":
		var self []netip.Addr
		for _, a := range words[1 : len(words)-2] {
			self = append(self, netip.MustParseAddr(a))
		}
		if len(self) > 0 {
			w.local = self[0]
		}
		return w.both(t, func(d *Desired) []Change { return d.SetNode(self) })
	case "nodes", "nodes-":
		s.Namespace, s.Name = key.namespace, words[1]
		return w.slice(t, s, words[0] == "nodes-")
	case "network", "network-", "slice", "slice-":
		s.Namespace, s.Network, s.Name, s.Owner = key.namespace, words[1], words[2], types.UID(options["owner"])
		if strings.HasPrefix(words[0], "network") {
			s.Name = cmp.Or(options["name"], "0")
		}
		if words[0] == "network" {
			s.Overlay = networkOf(t, key, words[2], words[3], options)
		}
		return w.slice(t, s, strings.HasSuffix(words[0], "-"))
	case "leave":
		maps.DeleteFunc(w.slices, func(k [3]string, _ dataplane.Slice) bool { return k[0] == key.namespace && k[1] == key.name })
		return w.both(t, func(d *Desired) []Change { return d.DeleteNetwork(key.namespace, key.name) })
	case "pod":
		p := podOf(t, key, options)
		w.pods[key] = p
		return w.both(t, func(d *Desired) []Change { return d.SetPod(p) })
	case "pod-":
		uid := w.pods[key].UID
		if other := options["uid"]; other != "" {
			uid = types.UID(other)
		}
		if w.pods[key].UID == uid {
			delete(w.pods, key)
		}
		return w.both(t, func(d *Desired) []Change { return d.DeletePod(key.namespace, key.name, uid) })
	case "port":
		p := LocalPort{Interface: PortKey(index), Pod: types.UID(words[2]), Namespace: key.namespace, Network: words[3]}
		w.ports[p.Interface] = p
		w.assign(p.Interface)
		return w.both(t, func(d *Desired) []Change { return d.SetPort(p) })
	case "port-":
		delete(w.ports, PortKey(index))
		delete(w.transits, PortKey(index))
		return w.both(t, func(d *Desired) []Change { return d.DeletePort(PortKey(index)) })
	}
	t.Fatalf("unknown word: %s", line)
	return nil
}

func (w *world) slice(t testing.TB, s dataplane.Slice, gone bool) []Change {
	t.Helper()
	key := [3]string{s.Namespace, s.Network, s.Name}
	if gone {
		delete(w.slices, key)
		return w.both(t, func(d *Desired) []Change { return d.DeleteSlice(s) })
	}
	w.slices[key] = s
	return w.both(t, func(d *Desired) []Change { return d.SetSlice(s) })
}

// both is a check, too: the same events give the same changes, in the same order.
func (w *world) both(t testing.TB, event func(*Desired) []Change) []Change {
	t.Helper()
	changes := event(w.desired)
	if twin := event(w.twin); !slices.Equal(changes, twin) {
		t.Errorf("the same events give\n%s\nand\n%s", render(changes), render(twin))
	}
	return changes
}

func networkOf(t testing.TB, key name, vni, cidr string, options map[string]string) *dataplane.Network {
	t.Helper()
	number, err := strconv.Atoi(vni)
	if err != nil {
		t.Fatal(err)
	}
	n := &dataplane.Network{Namespace: key.namespace, Name: key.name, VNI: int32(number), CIDR: netip.MustParsePrefix(cidr), MTU: 1450, Egress: options["egress"] == "NAT"}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	if a := options["gateway"]; a != "" {
		n.Gateway = netip.MustParseAddr(a)
	}
	if mtu := options["mtu"]; mtu != "" {
		n.MTU, _ = strconv.Atoi(mtu)
	}
	return n
}

func podOf(t testing.TB, key name, options map[string]string) dataplane.Pod {
	t.Helper()
	p := dataplane.Pod{Namespace: key.namespace, Name: key.name, UID: types.UID("u-" + key.name), Node: "n1"}
	if uid := options["uid"]; uid != "" {
		p.UID = types.UID(uid)
	}
	if created := options["created"]; created != "" {
		seconds, _ := strconv.Atoi(created)
		p.Created = time.Unix(int64(seconds), 0)
	}
	for _, network := range slices.Sorted(maps.Keys(options)) {
		ip, err := netip.ParseAddr(options[network])
		if err != nil {
			continue // an option
		}
		text := ipam.MAC(ip)
		if options["mac"] != "" {
			text = options["mac"]
		}
		mac, err := dataplane.ParseMAC(text)
		if err != nil {
			t.Fatal(err)
		}
		bits, _ := strconv.Atoi(options["bits"])
		p.Attachments = append(p.Attachments, dataplane.Attachment{Network: network, IP: ip, MAC: mac, Bits: bits})
	}
	return p
}

func (w *world) state() State {
	return State{Local: w.local, Pods: slices.Collect(maps.Values(w.pods)),
		Slices: slices.Collect(maps.Values(w.slices)), Ports: slices.Collect(maps.Values(w.ports)), Transits: w.transits, Range4: w.range4}
}

// apply the changes to the maps, one by one. After each of them every entry must lead to its
// own port.
func (w *world) apply(t testing.TB, changes []Change) {
	t.Helper()
	seen := map[Key]bool{}
	for i, c := range changes {
		w.maps.Apply(c)
		if seen[c.Key] {
			t.Errorf("%s: a second change of this entry", c)
		}
		seen[c.Key] = true
		for _, problem := range astray(w.maps) {
			t.Errorf("after %d changes: %s", i+1, problem)
		}
	}
}

// astray are the entries that lead to the port of another user, or to none.
func astray(t Tables) []string {
	var problems []string
	for k, place := range t.Places {
		port, exists := t.Ports[place.Interface]
		if place.Interface != 0 && (!exists || port.VNI != k.VNI || port.MAC != k.MAC) {
			problems = append(problems, fmt.Sprintf("place %v %s leads to port %s", k, place, port))
		}
		if (place.Interface == 0) == (place.Node == Address{}) {
			problems = append(problems, fmt.Sprintf("place %v %s leads to two places or to none", k, place))
		}
	}
	return problems
}

// check compares the maps and the contents of Desired with Full.
func (w *world) check(t testing.TB) {
	t.Helper()
	want, problems := Full(w.state())
	if is := w.desired.Tables(); !reflect.DeepEqual(is, want) {
		t.Errorf("Desired differs from Full:\n%s", render(Diff(is, want)))
	}
	if !reflect.DeepEqual(w.maps, want) {
		t.Errorf("the maps differ from Full:\n%s", render(Diff(w.maps, want)))
	}
	if got := w.desired.Problems(); !slices.Equal(got, problems) {
		t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(problems, "\n"))
	}
}

func render(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}
