package tables

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// network is a Network, and all that refers to it. It may be unknown.
type network struct {
	name   name
	slices map[string]*dataplane.Slice // by name
	// heads are the slices that have the properties of the Network. The one with the highest name
	// counts. It sets spec and owner, which are zero if the Network is unknown.
	heads []*dataplane.Slice
	spec  dataplane.Network
	owner types.UID
	// pods are the pods of this node that are on the Network, ports their ports and those of
	// unknown pods.
	pods  set[dataplane.Pod]
	ports int
	// claims are all addresses of the slices.
	claims claims
	// byIP and byMAC have the pods of this node whose addresses count. If several pods share an
	// address or a MAC address, the others have lost, for the reason given.
	byIP      map[netip.Addr]*dataplane.Pod
	byMAC     map[dataplane.MAC]*dataplane.Pod
	lost      map[*dataplane.Pod]string
	unsettled bool
	// open: the Network is on this node.
	open bool
}

func (n *network) String() string { return n.name.namespace + "/" + n.name.name }

// of returns the pod's attachment, and whether it counts. An earlier Network with that name may
// have had another CIDR.
func (n *network) of(p *dataplane.Pod) (dataplane.Attachment, bool) {
	for _, a := range p.Attachments {
		if a.Network == n.name.name && p.Namespace == n.name.namespace {
			return a, n.has(a.IP) && a.MAC != dataplane.GatewayMAC(n.spec.VNI)
		}
	}
	return dataplane.Attachment{}, false
}

// has says whether a pod may have the address.
func (n *network) has(ip netip.Addr) bool { return n.spec.CIDR.Contains(ip) && ip != n.spec.Gateway }

// network returns the Network with that name, for a change.
func (d *Desired) network(full name) *network {
	n := d.networks[full]
	if n == nil {
		n = &network{name: full, slices: map[string]*dataplane.Slice{}, pods: set[dataplane.Pod]{}, claims: newClaims()}
		d.networks[full] = n
	}
	d.concerned[n] = struct{}{}
	return n
}

// replace the contents of a slice.
func (d *Desired) replace(n *network, s *dataplane.Slice, is dataplane.Slice) {
	was := *s
	if was.Overlay != nil {
		n.heads = slices.DeleteFunc(n.heads, func(other *dataplane.Slice) bool { return other == s })
	}
	if *s = is; is.Overlay != nil {
		n.heads = append(n.heads, s)
	}
	for l := range differences(was.Locations, is.Locations) {
		mac := dataplane.MACOf(l.Address)
		n.claims.update(mac, s)
		d.markPlace(n, mac)
	}
	if was.Owner != is.Owner {
		for _, l := range is.Locations {
			d.markPlace(n, dataplane.MACOf(l.Address))
		}
	}
}

// specify reads the properties of the Network from its slices.
func (d *Desired) specify(n *network) {
	var spec dataplane.Network
	var owner types.UID
	if len(n.heads) > 0 {
		head := slices.MaxFunc(n.heads, func(a, b *dataplane.Slice) int { return strings.Compare(a.Name, b.Name) })
		spec, owner = *head.Overlay, head.Owner
	}
	was := n.spec
	was.MTU, was.Egress = spec.MTU, spec.Egress
	if was == spec && owner == n.owner { // no address is concerned
		if n.spec.MTU != spec.MTU || n.spec.Egress != spec.Egress {
			d.dirty = append(d.dirty, vniKey(spec.VNI))
		}
		n.spec = spec
		return
	}
	d.close(n)
	d.number(n, spec.VNI)
	n.spec, n.owner, n.unsettled = spec, owner, true
}

// number moves the Network to another VNI; 0 is none.
func (d *Desired) number(n *network, vni int32) {
	rest := slices.DeleteFunc(d.vnis[n.spec.VNI], func(other *network) bool { return other == n })
	if d.vnis[n.spec.VNI] = rest; len(rest) == 0 {
		delete(d.vnis, n.spec.VNI)
	}
	d.concern(rest)
	if vni == 0 {
		return
	}
	list := append(d.vnis[vni], n)
	slices.SortFunc(list, func(a, b *network) int { return strings.Compare(a.String(), b.String()) })
	d.vnis[vni] = list
	d.concern(list)
}

func (d *Desired) concern(networks []*network) {
	for _, n := range networks {
		d.concerned[n] = struct{}{}
	}
}

// finish decides which of the concerned Networks are on this node, and returns the changes.
func (d *Desired) finish() []Change {
	for n := range d.concerned {
		if n.unsettled {
			d.settle(n)
		}
		if list := d.vnis[n.spec.VNI]; len(list) > 0 && list[0] == n && len(n.byMAC)+n.ports > 0 {
			d.enter(n)
		} else {
			d.close(n)
		}
		if len(n.slices)+len(n.pods)+n.ports == 0 {
			delete(d.networks, n.name)
		}
	}
	clear(d.concerned)
	return d.flush()
}

// enter opens the Network on this node.
func (d *Desired) enter(n *network) {
	if !n.open {
		n.open = true
		d.markAll(n)
	}
}

// close leaves the Network.
func (d *Desired) close(n *network) {
	d.markAll(n)
	n.open = false
}

// settle decides which pods of this node have their addresses. The newest comes first: an older one is
// probably about to go.
func (d *Desired) settle(n *network) {
	var pods []*dataplane.Pod
	for p := range n.pods {
		if _, counts := n.of(p); counts {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *dataplane.Pod) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.UID, a.UID))
	})
	was := n.byMAC
	n.unsettled, n.byIP, n.byMAC, n.lost = false, map[netip.Addr]*dataplane.Pod{}, map[dataplane.MAC]*dataplane.Pod{}, map[*dataplane.Pod]string{}
	for _, p := range pods {
		a, _ := n.of(p)
		holder, what := n.byIP[a.IP], "address "+a.IP.String()
		if holder == nil {
			holder, what = n.byMAC[a.MAC], "MAC address "+a.MAC.String()
		}
		if holder != nil {
			n.lost[p] = fmt.Sprintf(problemClaims, n, p.Name, holder.Name, what, holder.Name)
			continue
		}
		n.byIP[a.IP], n.byMAC[a.MAC] = p, p
		if was[a.MAC] != p {
			d.mark(n, p)
		}
	}
	for mac, p := range was {
		if n.byMAC[mac] != p {
			d.mark(n, p)
		}
	}
}
