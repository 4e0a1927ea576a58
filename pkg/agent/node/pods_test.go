//go:build linux && kernel

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

type labPod struct {
	*lab
	on      *labNode
	name    string
	network dataplane.Network
	ip      netip.Addr
	mac     dataplane.MAC
}

// pod on a node, known to the API server. Nobody has attached it yet.
func (n *labNode) pod(name string, network dataplane.Network, ip string) *labPod {
	n.Helper()
	p := &labPod{lab: n.lab, on: n, name: name, network: network, ip: netip.MustParseAddr(ip)}
	mac, err := dataplane.ParseMAC(ipam.MAC(p.ip))
	must(n, err)
	p.mac = mac
	n.namespace(name)
	n.pods = append(n.pods, dataplane.Pod{Namespace: "default", Name: name, UID: types.UID("u-" + name), Node: n.name,
		Attachments: []dataplane.Attachment{{Network: network.Name, IP: p.ip, MAC: p.mac, Bits: network.CIDR.Bits()}}})
	return p
}

// attachment that pod2-cni would ask for.
func (p *labPod) attachment() cni.Attachment {
	return cni.Attachment{ID: cni.ID{ContainerID: "c-" + p.name, Interface: "net1"}, Network: "default." + p.network.Name, Pod: cni.Pod{Namespace: "default", Name: p.name, UID: "u-" + p.name}}
}

// add asks as pod2-cni does.
func (n *labNode) add(p *labPod) (cni.Result, error) { return n.addAs(p, p.attachment()) }

func (n *labNode) addAs(p *labPod, request cni.Attachment) (result cni.Result, err error) {
	ns, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", n.namespaces[p.name]))
	must(n, err)
	defer ns.Close()
	err = in(n.namespaces[n.name], func() error {
		result, err = n.node.Add(n.Context(), request, ns)
		return err
	})
	return result, err
}

// attach all those pods after a sync of all nodes.
func (l *lab) attach(pods ...*labPod) {
	l.Helper()
	l.sync()
	for _, p := range pods {
		p.attach()
	}
}

// attach a pod as a container runtime with pod2-cni and Multus does. The pod answers.
func (p *labPod) attach() {
	n := p.on
	n.Helper()
	result, err := n.add(p)
	must(n, err)
	must(n, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", n.namespaces[p.name]), filepath.Join(n.dir, p.name)))
	if result.Gateway.IsValid() {
		n.in(p.name, func() error {
			link, err := netlink.LinkByName("net1")
			if err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: result.Gateway.AsSlice()})
		})
	}
	n.echo(p.name, p.name)
}

// event calls methods of the node as a watch does.
func (n *labNode) event(happens func()) {
	n.Helper()
	n.in(n.name, func() error { happens(); return nil })
}

// record of the pod, as the API server has it.
func (p *labPod) record() dataplane.Pod {
	return p.pods[slices.IndexFunc(p.pods, func(x dataplane.Pod) bool { return x.Name == p.name })]
}

// wokenBefore forgets the calls of Changed so far.
func (n *labNode) wokenBefore() {
	for n.wasWoken() {
	}
}

func (n *labNode) wasWoken() bool {
	select {
	case <-n.woken:
		return true
	default:
		return false
	}
}
