package tables

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// network is a Network, and all that refers to it. It may be unknown.
type network struct {
	name name
	spec dataplane.Network // zero if the Network is unknown
	// here are the pods of this node that are on the Network, ports their ports and those of
	// unknown pods.
	here, elsewhere set[dataplane.Pod]
	ports           int

	// open: the Network is on this node. Only then it has the index below, of the pods that count.
	open  bool
	byIP  map[netip.Addr]*dataplane.Pod
	byMAC map[dataplane.MAC]*dataplane.Pod
	// contested are pods that share an address or a MAC address with another one. Some of them
	// have lost, for the reason given. The maps above have the winner, if there is one.
	contested []*dataplane.Pod
	lost      map[*dataplane.Pod]string
	unsettled bool
}

func (n *network) String() string { return n.name.namespace + "/" + n.name.name }

func (n *network) pods(here bool) set[dataplane.Pod] {
	if here {
		return n.here
	}
	return n.elsewhere
}

// of returns the pod's attachment, and whether it counts. An earlier Network with that name may
// have had another CIDR.
func (n *network) of(p *dataplane.Pod) (dataplane.Attachment, bool) {
	for _, a := range p.Attachments {
		if a.Network == n.name.name && p.Namespace == n.name.namespace {
			return a, n.spec.CIDR.Contains(a.IP) && a.IP != n.spec.Gateway && a.MAC != dataplane.GatewayMAC(n.spec.VNI)
		}
	}
	return dataplane.Attachment{}, false
}

// holds returns the pod's attachment, and whether packets for its address go to the pod.
func (n *network) holds(p *dataplane.Pod) (dataplane.Attachment, bool) {
	a, counts := n.of(p)
	_, lost := n.lost[p]
	return a, counts && n.open && !lost
}

// network returns the Network with that name, for a change.
func (d *Desired) network(full name) *network {
	n := d.networks[full]
	if n == nil {
		n = &network{name: full, here: set[dataplane.Pod]{}, elsewhere: set[dataplane.Pod]{}}
		d.networks[full] = n
	}
	d.concerned[n] = struct{}{}
	return n
}

func (d *Desired) concern(networks []*network) {
	for _, n := range networks {
		d.concerned[n] = struct{}{}
	}
}

// finish decides which of the concerned Networks are on this node, and returns the changes.
func (d *Desired) finish() []Change {
	for n := range d.concerned {
		if list := d.vnis[n.spec.VNI]; len(list) > 0 && list[0] == n && n.isHere() {
			d.enter(n)
		} else {
			d.close(n)
		}
		if n.unsettled {
			d.settle(n)
		}
		if n.spec.VNI == 0 && n.ports+len(n.here)+len(n.elsewhere) == 0 {
			delete(d.networks, n.name)
		}
	}
	d.concerned = set[network]{}
	return d.flush()
}

func (n *network) isHere() bool {
	for p := range n.here {
		if _, counts := n.of(p); counts {
			return true
		}
	}
	return n.ports > 0
}

// enter opens the Network on this node.
func (d *Desired) enter(n *network) {
	if n.open {
		return
	}
	size := len(n.here) + len(n.elsewhere)
	n.open, n.byIP, n.byMAC = true, make(map[netip.Addr]*dataplane.Pod, size), make(map[dataplane.MAC]*dataplane.Pod, size)
	d.dirty = slices.Grow(d.dirty, size+2)
	d.markVNI(n.spec.VNI)
	for _, pods := range []set[dataplane.Pod]{n.here, n.elsewhere} {
		for p := range pods {
			d.index(n, p)
		}
	}
}

// close leaves the Network.
func (d *Desired) close(n *network) {
	if !n.open {
		return
	}
	d.markVNI(n.spec.VNI)
	for _, pods := range []set[dataplane.Pod]{n.here, n.elsewhere} {
		for p := range pods {
			d.mark(n, p)
		}
	}
	n.open, n.byIP, n.byMAC, n.contested, n.lost, n.unsettled = false, nil, nil, nil, nil, false
}

// index adds the pod's claim to its address.
func (d *Desired) index(n *network, p *dataplane.Pod) {
	a, counts := n.of(p)
	if !n.open || !counts {
		return
	}
	d.mark(n, p)
	for _, other := range []*dataplane.Pod{n.byIP[a.IP], n.byMAC[a.MAC]} {
		if other != nil {
			n.contest(other)
			n.contest(p)
		}
	}
	n.byIP[a.IP], n.byMAC[a.MAC] = p, p
}

func (n *network) contest(p *dataplane.Pod) {
	n.unsettled = true
	if !slices.Contains(n.contested, p) {
		n.contested = append(n.contested, p)
	}
}

// unindex removes the pod's claim, and looks at the contested ones anew if it was one.
func (d *Desired) unindex(n *network, p *dataplane.Pod) {
	if _, counts := n.of(p); !n.open || !counts {
		return
	}
	d.mark(n, p)
	removed := []*dataplane.Pod{p}
	if slices.Contains(n.contested, p) {
		removed, n.contested, n.unsettled = n.contested, nil, true
	}
	for _, other := range removed {
		a, _ := n.of(other)
		delete(n.byIP, a.IP)
		delete(n.byMAC, a.MAC)
	}
	for _, other := range removed {
		if other != p {
			d.index(n, other)
		}
	}
}

// settle decides which of the contested pods win. The newest comes first: an older one is
// probably about to go.
func (d *Desired) settle(n *network) {
	slices.SortFunc(n.contested, func(a, b *dataplane.Pod) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.UID, a.UID))
	})
	n.unsettled, n.lost = false, map[*dataplane.Pod]string{}
	byIP, byMAC := map[netip.Addr]*dataplane.Pod{}, map[dataplane.MAC]*dataplane.Pod{}
	for _, p := range n.contested {
		a, _ := n.of(p)
		holder, what := byIP[a.IP], "address "+a.IP.String()
		if holder == nil {
			holder, what = byMAC[a.MAC], "MAC address "+a.MAC.String()
		}
		if holder != nil {
			n.lost[p] = fmt.Sprintf(problemClaims, n, p.Name, holder.Name, what, holder.Name)
		} else {
			byIP[a.IP], byMAC[a.MAC] = p, p
			n.byIP[a.IP], n.byMAC[a.MAC] = p, p
		}
		d.mark(n, p)
	}
}
