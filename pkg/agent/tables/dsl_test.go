package tables

import (
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

// world has the events of node n1 twice: Desired had them one by one, and state is their sum.
// maps are the maps of the kernel, which had each change.
type world struct {
	desired, twin *Desired
	local         netip.Addr
	pods          map[name]dataplane.Pod
	networks      map[name]dataplane.Network
	nodes         map[string]dataplane.Node
	ports         map[PortKey]LocalPort
	maps          Tables
}

func newWorld() *world {
	return &world{desired: New("n1"), twin: New("n1"), pods: map[name]dataplane.Pod{}, networks: map[name]dataplane.Network{},
		nodes: map[string]dataplane.Node{}, ports: map[PortKey]LocalPort{}, maps: Empty()}
}

// event happens. Each is one line; with a - the thing is deleted:
//
//	node n1 10.0.0.1 fd0a::1                 node- n1
//	network blue 1001 192.168.0.0/24         network- blue    gateway by default; also gateway=, mtu=1400, ns=other
//	pod a n1 blue=192.168.0.2 green=10.1.0.2 pod- a           also uid=, created=5, mac= (of all), ns=other
//	port 7 u-a blue                          port- 7          also ns=other
//	router 9 1001                            port- 9
func (w *world) event(t testing.TB, line string) []Change {
	t.Helper()
	var words []string
	options := map[string]string{"ns": "default"}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			options[key] = value
		} else {
			words = append(words, word)
		}
	}
	key := name{options["ns"], words[1]}
	index, _ := strconv.ParseUint(words[1], 10, 32)
	switch words[0] {
	case "node":
		n := dataplane.Node{Name: words[1]}
		for _, a := range words[2:] {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
		}
		w.nodes[n.Name] = n
		if n.Name == "n1" && len(n.Addresses) > 0 {
			w.local = n.Addresses[0]
		}
		return w.both(t, func(d *Desired) []Change { return d.SetNode(n) })
	case "node-":
		delete(w.nodes, words[1])
		return w.both(t, func(d *Desired) []Change { return d.DeleteNode(words[1]) })
	case "network":
		n := networkOf(t, key, words[2], words[3], options)
		w.networks[key] = n
		return w.both(t, func(d *Desired) []Change { return d.SetNetwork(n) })
	case "network-":
		delete(w.networks, key)
		return w.both(t, func(d *Desired) []Change { return d.DeleteNetwork(key.namespace, key.name) })
	case "pod":
		p := podOf(t, key, words[2], options)
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
	case "port", "router":
		p := LocalPort{Interface: PortKey(index)}
		if vni, err := strconv.Atoi(words[2]); err == nil {
			p.VNI = int32(vni)
		} else {
			p.Pod, p.Namespace, p.Network = types.UID(words[2]), key.namespace, words[3]
		}
		w.ports[p.Interface] = p
		return w.both(t, func(d *Desired) []Change { return d.SetPort(p) })
	case "port-":
		delete(w.ports, PortKey(index))
		return w.both(t, func(d *Desired) []Change { return d.DeletePort(PortKey(index)) })
	}
	t.Fatalf("unknown word: %s", line)
	return nil
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

func networkOf(t testing.TB, key name, vni, cidr string, options map[string]string) dataplane.Network {
	t.Helper()
	number, err := strconv.Atoi(vni)
	if err != nil {
		t.Fatal(err)
	}
	n := dataplane.Network{Namespace: key.namespace, Name: key.name, VNI: int32(number), CIDR: netip.MustParsePrefix(cidr), MTU: 1450}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	if a := options["gateway"]; a != "" {
		n.Gateway = netip.MustParseAddr(a)
	}
	if mtu := options["mtu"]; mtu != "" {
		n.MTU, _ = strconv.Atoi(mtu)
	}
	return n
}

func podOf(t testing.TB, key name, node string, options map[string]string) dataplane.Pod {
	t.Helper()
	p := dataplane.Pod{Namespace: key.namespace, Name: key.name, UID: types.UID("u-" + key.name), Node: node}
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
		p.Attachments = append(p.Attachments, dataplane.Attachment{Network: network, IP: ip, MAC: mac})
	}
	return p
}

func (w *world) state() State {
	return State{Self: "n1", Local: w.local, Pods: slices.Collect(maps.Values(w.pods)), Networks: slices.Collect(maps.Values(w.networks)),
		Nodes: slices.Collect(maps.Values(w.nodes)), Ports: slices.Collect(maps.Values(w.ports))}
}

// apply the changes to the maps, one by one. After each of them every entry must lead to its
// own port or node.
func (w *world) apply(t testing.TB, changes []Change) {
	t.Helper()
	seen := map[key]bool{}
	for i, c := range changes {
		w.maps.Apply(c)
		if seen[c.key()] {
			t.Errorf("%s: a second change of this entry", c)
		}
		seen[c.key()] = true
		for _, problem := range astray(w.maps) {
			t.Errorf("after %d changes: %s", i+1, problem)
		}
	}
}

// astray are the entries that lead to the port of another user, or to no port or node.
func astray(t Tables) []string {
	var problems []string
	for k, place := range t.Places {
		port, exists := t.Ports[place.Interface]
		if place.Interface != 0 && (!exists || port.VNI != k.VNI || port.MAC != k.MAC || port.Router) {
			problems = append(problems, fmt.Sprintf("place %v %s leads to port %s", k, place, port))
		}
		if _, known := t.Nodes[place.Node]; place.Interface == 0 && !known {
			problems = append(problems, fmt.Sprintf("place %v %s leads to an unknown node", k, place))
		}
	}
	for vni, n := range t.Networks {
		if port := t.Ports[n.Router]; n.Router != 0 && (port.VNI != vni || !port.Router) {
			problems = append(problems, fmt.Sprintf("network %d %s leads to port %s", vni, n, port))
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
