//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	agentnode "github.com/pod2/pod2/pkg/agent/node"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// measureEntries fills the maps of a node that has none, and compares them again. It calls the agent's own code,
// without watches.
func (b *bench) measureEntries() measure.Results {
	r, ns, dir := measure.Results{}, newNamespace("alone"), filepath.Join(b.dir, "alone")
	defer ns.file.Close()
	mountBPF(dir)
	defer unmountBPF(dir)
	ns.do(func() {
		n := measure.Must(agentnode.New(agentnode.Config{Name: "alone", Directory: filepath.Join(dir, "pod2"), UDPPort: 4789, Changed: func() {}}))
		defer n.Close()
		measure.Check(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: dataplane.GatewayName}, PeerName: dataplane.GatewayPeer}))
		n.SetNode([]netip.Addr{netip.MustParseAddr("10.9.0.1")})
		const perSlice = 50
		host := far.address
		n.SetSlice(dataplane.Slice{Name: "nodes.0", Locations: []dataplane.Location{{Address: host, Host: host}}})
		n.SetSlice(dataplane.Slice{Namespace: space, Network: big.Name, Name: big.Name + "-0", Overlay: &big})
		own := netip.MustParseAddr("10.0.0.2")
		n.SetPod(dataplane.Pod{Namespace: space, Name: "own", UID: "own", Node: "alone",
			Attachments: []dataplane.Attachment{{Network: big.Name, IP: own, MAC: macOf(own), Bits: big.CIDR.Bits()}}})
		for i := 0; i < b.Entries; i += perSlice {
			s := dataplane.Slice{Namespace: space, Network: big.Name, Name: fmt.Sprint(i)}
			for j := range perSlice {
				s.Locations = append(s.Locations, dataplane.Location{Address: farIP(i + j), Host: host})
			}
			n.SetSlice(s)
		}
		sync := func(step string, least, most int) {
			begin := time.Now()
			changes, _, err := n.Sync(true)
			measure.Check(err)
			r.Add(measure.Milliseconds(time.Since(begin)), step)
			if changes < least || changes > most {
				measure.Check(fmt.Errorf("%s: %d entries differed, not %d to %d", step, changes, least, most))
			}
		}
		sync("programmed", b.Entries, b.Entries+2) // with the Network and the node
		sync("compared", 0, 0)
	})
	return r
}

// measureMoves moves m from node to node: its port and its object are removed, another with its name and address
// is created, and CNI attaches it. Before each move, m is unplugged and plugged in where it is.
func (b *bench) measureMoves(ctx context.Context) measure.Results {
	r, m, a := measure.Results{}, b.pods["m"], b.pods["a"].namespace
	during := func(change func()) float64 {
		p := startPings(ctx, a, m.ip)
		time.Sleep(200 * time.Millisecond)
		m.detach(ctx)
		change()
		m.attach(ctx)
		connected(ctx, a, m.ip)
		time.Sleep(200 * time.Millisecond)
		_, lost := p.end()
		return lost
	}
	for i := range b.Moves {
		plugged := during(func() {})
		moved := during(func() {
			b.remove(ctx, m)
			b.publish(ctx, m, b.lab.nodes[1+(i+1)%2])
		})
		r.Add(plugged, "plugged")
		r.Add(moved, "moved")
		r.Add(moved-plugged, "more")
	}
	return r
}

// measureRestart stops the agents of two nodes and starts them again, during pings between their pods.
func (b *bench) measureRestart(ctx context.Context) measure.Results {
	r, nodes := measure.Results{}, b.lab.nodes[:2]
	p := startPings(ctx, b.pods["a"].namespace, b.pods["b"].ip)
	for _, n := range nodes {
		n.agent.Stop()
	}
	time.Sleep(b.each)
	for _, n := range nodes {
		begin := time.Now()
		n.agent.start(ctx, b)
		r.Add(time.Since(begin).Seconds(), "ready")
		r.Add(n.agent.CPU().Seconds(), "CPU")
		r.Add(n.agent.Peak()/(1<<20), "peak")
	}
	time.Sleep(b.each)
	sent, lost := p.end()
	r.Add(sent, "sent")
	r.Add(lost, "lost")
	return r
}

// measureBinding measures the time from the request that binds a pod to a node until the last node has its entry, in
// milliseconds. The pod has its published address before. The agents are idle in between. The controller writes single
// changes of a Network at once, and more of them once a second, so the pods are bound more slowly than that.
func (b *bench) measureBinding(ctx context.Context) measure.Results {
	watched := b.WatchPods(ctx, space, func(watch.Event) {})
	defer watched.Stop()
	farPod := func(i int) *corev1.Pod { return b.create(ctx, fmt.Sprint("far-", i), big, farIP(i)) }
	measure.Parallel(b.Standing, func(i int) { b.bind(ctx, farPod(i), far.name) })
	watched.Wait(ctx, "all pods are Ready", func(p measure.Point) bool { return p.Ready >= b.Standing })
	measure.Say("%d pods are Ready", b.Standing)
	r := measure.Results{}
	for i := range b.Bound {
		pod, mac := farPod(b.Standing+i), macOf(farIP(b.Standing+i))
		// The pause varies, to be out of step with the agents' rest.
		time.Sleep(time.Duration(1010+i%41) * time.Millisecond)
		begin := time.Now()
		b.bind(ctx, pod, far.name)
		for _, n := range b.lab.nodes {
			measure.Until(ctx, 100*time.Microsecond, "the entry of a pod", func() bool { return n.agent.knows(big.VNI, mac) })
		}
		r.Add(measure.Milliseconds(time.Since(begin)))
	}
	return r
}

// measureNewNetworks measures CNI ADD, in milliseconds, for the first pod of a Network on the node. The controller has
// published the pods, and is stopped before they are bound. The agent first lists the AddressSlices of the Network.
func (b *bench) measureNewNetworks(ctx context.Context, stop func()) measure.Results {
	var pods []*pod
	var objects []*corev1.Pod
	for i := range 20 {
		n := newNetwork(fmt.Sprint("new-", i), "192.168.0.0/24")
		b.createNetwork(ctx, &n)
		q := &pod{namespace: b.lab.open(n.Name), network: n, ip: n.Gateway.Next(), node: b.lab.nodes[2]}
		object := b.create(ctx, q.name, n, q.ip)
		q.uid = string(object.UID)
		pods, objects = append(pods, q), append(objects, object)
		measure.Until(ctx, 10*time.Millisecond, "the AddressSlice of a Network", func() bool {
			list := measure.Must(b.Sample.SamplecrdV1().AddressSlices(space).List(ctx, metav1.ListOptions{LabelSelector: samplecrdv1.NetworkLabel + "=" + n.Name}))
			return len(list.Items) > 0
		})
	}
	stop()
	r := measure.Results{}
	for i, q := range pods {
		b.bind(ctx, objects[i], q.node.name)
		begin := time.Now()
		q.attach(ctx)
		r.Add(measure.Milliseconds(time.Since(begin)))
	}
	return r
}
