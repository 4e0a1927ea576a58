package tables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// view has the maps of the world's node. Interface 2 leads to other nodes, and 3 is the VXLAN device.
func (w *world) view() View {
	v := View{Tables: w.maps, Wires: map[netip.Addr]Wire{}, Config: Config{VXLAN: 3, UDPPort: 4789, Gateway: 9},
		Name: func(index uint32) string {
			return map[uint32]string{2: "eth0", 3: "pod2vxlan", 7: "pod2a", 8: "pod2b", 9: "pod2gw"}[index]
		}, Exit: exit}
	if w.local.Is4() {
		v.Local = w.local
	}
	for node := range w.maps.Nodes {
		v.Wires[node] = Wire{Interface: 2}
	}
	return v
}

// exit of a node whose default route leads by interface 2.
func exit(to netip.Addr) Exit {
	e, known := map[string]Exit{
		"10.0.0.2":        {Interface: 2, Refusals: []string{"node"}},
		"172.17.0.1":      {Interface: 1, Local: true},
		"10.1.0.1":        {Interface: 2, Refusals: []string{"api"}},
		"169.254.169.254": {Interface: 2, Refusals: []string{"denied"}},
		"100.64.0.9":      {Interface: 9},
		"8.8.8.8":         {},
		"9.9.9.8":         {Interface: 2, Unread: true},
	}[to.String()]
	if !known {
		e.Interface = 2
	}
	return e
}

func TestTrace(t *testing.T) {
	const (
		blue   = "node 10.0.0.1\nnodes s1 10.0.0.2\nnetwork blue 1001 192.168.0.0/24\npod a blue=192.168.0.2\nport 7 u-a blue\n"
		sender = "Sender: pod2a may send on VNI 1001 as 192.168.0.2 with MAC 0a:58:c0:a8:00:02. Other sources are dropped (mac, ip, arp, nd).\n"
		nat    = blue + "network blue 1001 192.168.0.0/24 egress=NAT\n"
		inside = "Dropped (unknown): 192.168.0.3 is an address of the Network, and the gateway leads to the outside only."
		size   = "Size: IP packets of up to 1450 bytes pass. Larger ones are dropped (oversized).\n"
		rules  = "Rules of the node: the packet reaches them by pod2gw as 100.64.0.7. If a Service has the address, the node replaces it first.\n"
		third  = "Neighbour: 192.168.0.3 has MAC 0a:58:c0:a8:00:03. The programs answer the sender's question themselves.\n"
		nobody = `Neighbour: nobody has %s on VNI 1001. If a route of the pod has it on the link, the pod's question is dropped (unknown).
			Route: if the pod's route leads to the gateway, the packet leaves for 192.168.0.1 with MAC 02:00:5e:00:03:e9.
			`
		local  = blue + "pod b blue=192.168.0.3\nport 8 u-b blue\n"
		remote = blue + "slice blue 1 192.168.0.3=10.0.0.2\n"
		ipv6   = "node fd0a::1\nnodes s1 fd0a::2\nnetwork blue 1001 fd12::/64\npod a blue=fd12::2\nslice blue 1 fd12::3=fd0a::2\nport 7 u-a blue\n"
		from6  = "Sender: pod2a may send on VNI 1001 as fd12::2 with MAC 0a:58:00:00:00:02. Other sources are dropped (mac, ip, arp, nd).\n"
	)
	for _, tt := range []struct {
		name, in string
		from     PortKey
		to, want string
		damage   func(View)
	}{
		{"no port", blue, 8, "192.168.0.3", "Dropped (stranger): the table of ports does not have pod2b.", nil},
		{"no Network", blue, 7, "192.168.0.3", "Dropped (stranger): the table of networks does not have VNI 1001.", func(v View) { clear(v.Networks) }},
		{"a pod of this node", local, 7, "192.168.0.3", sender + third + size + "Delivered by pod2b to the pod.", nil},
		{"a pod whose port is another's", local, 7, "192.168.0.3", sender + third + size +
			"Dropped (unknown): the tables lead to pod2b, which is not the port of 0a:58:c0:a8:00:03 on VNI 1001.", func(v View) { v.Ports[8] = v.Ports[7] }},
		{"a pod of another node", remote, 7, "192.168.0.3", sender + third + size +
			`Node: the receiver is on node 10.0.0.2, which accepts the packet if 10.0.0.1 is in its table of nodes.
			Sent by eth0: VXLAN with VNI 1001 from 10.0.0.1 to 10.0.0.2, UDP port 4789.`, nil},
		{"a node that is unknown", remote, 7, "192.168.0.3", sender + third + size +
			"Dropped (unknown): the receiver is on node 10.0.0.2, which is not in the table of nodes.", func(v View) { clear(v.Wires) }},
		{"nodes that have IPv6", ipv6, 7, "fd12::3", from6 + "Neighbour: fd12::3 has MAC 0a:58:00:00:00:03. The programs answer the sender's question themselves.\n" + size +
			`Node: the receiver is on node fd0a::2, which accepts the packet if the address of this node is in its table of nodes.
			Sent by pod2vxlan, which adds VXLAN with VNI 1001 to fd0a::2, UDP port 4789.`, nil},
		{"a link-local address", ipv6, 7, "fe80::858:ff:fe00:3", from6 + "Neighbour: fe80::858:ff:fe00:3 has MAC 0a:58:00:00:00:03. The programs answer the sender's question themselves.\n" + size +
			`Node: the receiver is on node fd0a::2, which accepts the packet if the address of this node is in its table of nodes.
			Sent by pod2vxlan, which adds VXLAN with VNI 1001 to fd0a::2, UDP port 4789.`, nil},
		{"IPv4 from a pod that has IPv6", ipv6, 7, "192.168.0.3", from6 + "Dropped (arp): the sender has no IPv4 address, so its ARP request for 192.168.0.3 is refused.", nil},
		{"IPv6 from a pod that has IPv4", blue, 7, "2001:db8::1", sender + "Dropped (unknown): nobody has 2001:db8::1 on VNI 1001, and the sender has no gateway for it.", nil},
		{"an address that ends as another one", ipv6, 7, "2001:db8::3", from6 + `Neighbour: nobody has 2001:db8::3 on VNI 1001. If a route of the pod has it on the link, the pod's question is dropped (unknown).
			Route: if the pod's route leads to the gateway, the packet leaves for fd12::1 with MAC 02:00:5e:00:03:e9.
			` + size + "Dropped (egress): the Network has egress None.", nil},
		{"the gateway", blue, 7, "192.168.0.1", sender + "Neighbour: 192.168.0.1 has MAC 02:00:5e:00:03:e9. The programs answer the sender's question themselves.\n" + size +
			"Dropped (unknown), unless it is an ICMP echo request for the gateway: the programs answer those.", nil},
		{"the outside", nat, 7, "9.9.9.9", sender + fmt.Sprintf(nobody, "9.9.9.9") + size + rules + "Sent by eth0 with an address of the node as source (NAT).", nil},
		{"the outside without the rules of the node", nat, 7, "9.9.9.8", sender + fmt.Sprintf(nobody, "9.9.9.8") + size + rules +
			"Sent by eth0 with an address of the node as source (NAT). The rules of the node could not be read: they may drop the packet (node, api, denied).", nil},
		{"a node", nat, 7, "10.0.0.2", sender + fmt.Sprintf(nobody, "10.0.0.2") + size + rules + "Dropped (node): 10.0.0.2 is an address of a node.", nil},
		{"this node at an address that its Node lacks", nat, 7, "172.17.0.1", sender + fmt.Sprintf(nobody, "172.17.0.1") + size + rules + "Dropped (node): 172.17.0.1 is an address of a node.", nil},
		{"the API server", nat, 7, "10.1.0.1", sender + fmt.Sprintf(nobody, "10.1.0.1") + size + rules +
			"Sent by eth0 with an address of the node as source (NAT). TCP to the port of the API server is dropped (api).", nil},
		{"a denied address", nat, 7, "169.254.169.254", sender + fmt.Sprintf(nobody, "169.254.169.254") + size + rules + "Dropped (denied): 169.254.169.254 is in --deny-cidrs.", nil},
		{"a transit address", nat, 7, "100.64.0.9", sender + fmt.Sprintf(nobody, "100.64.0.9") + size + rules + "Dropped (network): 100.64.0.9 is a transit address of another pod.", nil},
		{"an address without a route", nat, 7, "8.8.8.8", sender + fmt.Sprintf(nobody, "8.8.8.8") + size + rules + "Dropped without a count: the node has no route to 8.8.8.8.", nil},
		{"the outside without egress", blue, 7, "9.9.9.9", sender + fmt.Sprintf(nobody, "9.9.9.9") + size + "Dropped (egress): the Network has egress None.", nil},
		{"the outside without a transit address", nat, 7, "9.9.9.9", sender + fmt.Sprintf(nobody, "9.9.9.9") + size +
			"Dropped (unknown): the port has no transit address, because all of --transit-cidr are taken.", func(v View) {
			p := v.Ports[7]
			p.Transit = Address{}
			v.Ports[7] = p
		}},
		{"itself", blue, 7, "192.168.0.2", sender + "Delivered in the sender itself: 192.168.0.2 is its own address, so the packet does not reach the programs.", nil},
		{"a group", blue, 7, "224.0.0.251", sender + "Dropped (multicast): 224.0.0.251 is a group. The programs flood nothing.", nil},
		{"a pod of another Network", blue + "network green 1002 192.168.0.0/24\npod g green=192.168.0.3\nport 8 u-g green\n", 7, "192.168.0.3",
			sender + fmt.Sprintf(nobody, "192.168.0.3") + size + inside, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withTransits(24)
			for line := range strings.Lines(tt.in) {
				w.apply(t, w.event(t, line))
			}
			v := w.view()
			if tt.damage != nil {
				tt.damage(v)
			}
			expect(t, strings.Join(v.Trace(tt.from, netip.MustParseAddr(tt.to)), "\n"), tt.want)
		})
	}
}

// The agent sets the device first: without one, nothing leaves the node.
func TestTraceBeforeConfiguration(t *testing.T) {
	w := withTransits(24)
	for _, line := range []string{"node 10.0.0.1", "nodes s1 10.0.0.2", "network blue 1001 192.168.0.0/24", "pod a blue=192.168.0.2", "port 7 u-a blue", "slice blue 1 192.168.0.3=10.0.0.2"} {
		w.apply(t, w.event(t, line))
	}
	v := w.view()
	v.VXLAN, v.Gateway, v.Local = 0, 0, netip.Addr{}
	for to, want := range map[string]string{
		"192.168.0.3": "Dropped without a count: the agent has not configured the programs yet.",
		"9.9.9.9":     "Dropped (unknown): the agent has not configured the programs yet.",
	} {
		lines := v.Trace(7, netip.MustParseAddr(to))
		expect(t, lines[len(lines)-1], want)
	}
}
