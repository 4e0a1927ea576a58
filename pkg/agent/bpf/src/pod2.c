/* The data plane of a node, as tc programs. They learn nothing and flood nothing: the agent
 * writes the maps, and everything that they do not know is dropped and counted.
 *
 *	pod a -- veth --> from_port --+--> pod b, on this node
 *	                              +--> NAT --> pod2gw, by which the node routes it to the outside
 *	                              +--> VXLAN --> to_wire --> eth0
 *	eth0 --> from_wire ---------------> pod b
 *	vxlan device --> from_vxlan ------> pod b, for packets that from_wire leaves to the kernel
 *	the node's routes --> pod2gw --> to_gateway --> pod2gwp --> from_gateway --> NAT --> pod a
 *	a program of the node --> to_port -x, to_gateway -x, to_wire -x, loopback -x, past all of them: no_bypass -x
 *
 * Two Networks with one CIDR are two VNIs. Nothing else tells them apart.
 */
#include "gateway.h"

/* by_device lets the kernel's VXLAN device encapsulate. */
static __always_inline int by_device(struct __sk_buff *skb, __u32 vni, const struct address *to, const struct config *c)
{
	struct bpf_tunnel_key key = {.tunnel_id = vni, .tunnel_ttl = 64};
	int mapped = is_mapped(to);

	/* Nodes take VXLAN only from this address. The kernel would choose any of the node's. */
	if (mapped) {
		key.remote_ipv4 = bpf_ntohl(to->word[3]);
		key.local_ipv4 = bpf_ntohl(c->local.word[3]);
	} else {
		copy_words(key.remote_ipv6, to->word);
		copy_words(key.local_ipv6, c->local.word);
	}
	if (bpf_skb_set_tunnel_key(skb, &key, sizeof(key), BPF_F_ZERO_CSUM_TX | (mapped ? 0 : BPF_F_TUNINFO_IPV6)))
		return drop(skb, vni, FAILED);
	skb->tc_index = BY_DEVICE;
	return bpf_redirect(c->vxlan, 0);
}

/* encapsulate and send to a node. The VXLAN device does it for nodes with IPv6 or without an Ethernet
 * interface that leads there, and for segments that the helper refuses: those of SCTP, for example. */
static __always_inline int encapsulate(struct __sk_buff *skb, __u32 vni, const struct place *place, const struct ethhdr *inner)
{
	struct config *c = settings();
	struct address to = place->node;
	struct node *node = bpf_map_lookup_elem(&nodes, &to);
	struct bpf_redir_neigh next = {.nh_family = AF_INET, .ipv4_nh = to.word[3]};
	struct outer *out;
	__u16 source, length = skb->len - sizeof(*inner);

	if (!c || !node)
		return drop(skb, vni, UNKNOWN);
	/* Each flow has its own source port, so that all queues of the network card are used. */
	source = 0xc000 | (bpf_get_hash_recalc(skb) & 0x3fff);
	if (!is_mapped(&to) || !is_mapped(&c->local) || !node->interface ||
	    bpf_skb_adjust_room(skb, OUTER, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
				BPF_F_ADJ_ROOM_ENCAP_L2(sizeof(*inner)) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH))
		return by_device(skb, vni, &to, c);
	out = at(skb, 0, sizeof(*out));
	if (!out)
		return drop(skb, vni, FAILED);
	out->eth.h_proto = bpf_htons(ETH_P_IP); /* bpf_redirect_neigh writes the addresses */
	write_outer(out, c->local.word[3], to.word[3], c->port, source, vni, length, inner);
	if (node->direct)
		return bpf_redirect_neigh(node->interface, &next, sizeof(next), 0);
	return bpf_redirect_neigh(node->interface, 0, 0, 0);
}

/* from_port sees each packet that a pod sends. */
SEC("tc")
int from_port(struct __sk_buff *skb)
{
	__u32 interface = skb->ifindex;
	struct port *found = bpf_map_lookup_elem(&ports, &interface), port = {};
	struct network *network;
	struct neighbour neighbour = {};
	struct packet packet = {};
	struct ethhdr eth, *head;
	struct place *place;
	__u64 flags = 0;
	int verdict;
	__u32 vni;

	skb->tc_index = 0; /* a pod can set it before the packet leaves */
	if (found)
		port = *found; /* another port can get the entry at any time */
	vni = port.vni;
	network = bpf_map_lookup_elem(&networks, &vni);
	if (!network)
		return drop(skb, 0, STRANGER);
	head = at(skb, 0, sizeof(*head));
	if (!head)
		return drop(skb, vni, TRUNCATED);
	eth = *head;
	if (!same_mac(eth.h_source, port.mac))
		return drop(skb, vni, MAC);
	if (skb->vlan_present)
		return drop(skb, vni, PROTOCOL);
	verdict = eth.h_proto == bpf_htons(ETH_P_ARP) ? check_arp(skb, &port, &neighbour) : check_ip(skb, &port, &eth, &packet, &neighbour);
	if (verdict)
		return drop(skb, vni, verdict);

	/* A question for a neighbour is answered here, by the same map that leads to it. */
	if (neighbour.asked) {
		if (!is_gateway(&neighbour, network)) {
			place = place_of(vni, neighbour.mac);
			if (!place || !(neighbour.link_local || same_address(&place->ip, &neighbour.ip)))
				return drop(skb, vni, UNKNOWN);
		}
		if (same_mac(neighbour.mac, port.mac))
			return drop(skb, vni, MULTICAST); /* it asks whether its own address is free */
		if (packet.ipv6 ? answer_solicitation(skb, &neighbour) : answer_arp(skb, &neighbour))
			return drop(skb, vni, FAILED);
		return bpf_redirect(interface, 0);
	}

	if (eth.h_dest[0] & 1)
		return drop(skb, vni, MULTICAST);
	if (wire_size(skb, &packet) > network->mtu)
		return drop(skb, vni, OVERSIZED);
	if (same_mac(eth.h_dest, network->mac)) {
		verdict = to_outside(skb, &port, network, &eth, &packet, &interface, &flags);
		return verdict ? drop(skb, vni, verdict) : bpf_redirect(interface, flags);
	}
	place = place_of(vni, eth.h_dest);
	if (!place)
		return drop(skb, vni, UNKNOWN);
	if (place->interface)
		return deliver(skb, vni, place->interface, eth.h_dest);
	return encapsulate(skb, vni, place, &eth);
}

/* to_port lets nothing through but answers of from_port: packets of pods go to the other end of
 * the veth at once (bpf_redirect_peer), and no program of the node may speak to a pod. It does not see raw
 * sockets that skip tc when they send: see sockets.c. */
SEC("tc")
int to_port(struct __sk_buff *skb)
{
	return skb->ingress_ifindex == skb->ifindex ? TC_ACT_UNSPEC : drop(skb, 0, INJECTED);
}

/* receive says where a packet of a node goes. It returns 0 after it dropped one. */
static __always_inline __u32 receive(struct __sk_buff *skb, __u32 vni, const struct node *from, const struct ethhdr *inner)
{
	struct place *place = place_of(vni, inner->h_dest);
	__u32 interface = place ? place->interface : 0;
	int is_ip = inner->h_proto == bpf_htons(ETH_P_IP) || inner->h_proto == bpf_htons(ETH_P_IPV6);
	int reason = !from ? VXLAN : !is_ip ? PROTOCOL : !interface ? UNKNOWN : 0;

	if (reason)
		drop(skb, vni, reason);
	return reason ? 0 : interface;
}

/* from_wire takes VXLAN of the Networks of this node. It leaves everything else to the node: other VNIs,
 * other ports, VLAN tags, fragments, IP options, and packets that were marked as congested (ECN) on
 * their way, among it. The VXLAN device copies such a mark to the inner packet. */
SEC("tc")
int from_wire(struct __sk_buff *skb)
{
	struct config *c = settings();
	struct address from = {};
	struct ethhdr inner, *eth;
	struct outer *out;
	struct node *node;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	__u32 vni, interface;

	if (!c || skb->vlan_present || skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_UNSPEC;
	out = at(skb, 0, sizeof(*out));
	if (!out || !is_ours(out, &c->local, c->port))
		return TC_ACT_UNSPEC;
	vni = bpf_ntohl(out->vni) >> 8;
	inner = out->inner;
	map_address(&from, out->ip.saddr);
	if (!bpf_map_lookup_elem(&networks, &vni))
		return TC_ACT_UNSPEC;
	/* Of segments, the helper can take only those of TCP out of the tunnel. */
	if (skb->gso_size && byte_at(skb, sizeof(*out) + (inner.h_proto == bpf_htons(ETH_P_IPV6) ? 6 : 9)) != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	node = bpf_map_lookup_elem(&nodes, &from);
	if (node && node->interface != skb->ifindex)
		return TC_ACT_UNSPEC; /* the filter of the node knows which routes need not be symmetrical */
	interface = receive(skb, vni, node, &inner);
	if (!interface)
		return TC_ACT_SHOT;
	if (inner.h_proto == bpf_htons(ETH_P_IPV6))
		flags |= DECAP_L3_IPV6;
	if (bpf_skb_adjust_room(skb, -OUTER, BPF_ADJ_ROOM_MAC, flags))
		return TC_ACT_UNSPEC; /* unchanged, as on kernels before 6.4 with IPv6: the VXLAN device takes it */
	/* The kernel or the network card counts the headers with a verified checksum, the outer one first.
	 * It counts an outer checksum of 0, too. */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	eth = at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, vni, FAILED);
	*eth = inner;
	return deliver(skb, vni, interface, inner.h_dest);
}

/* from_vxlan does the same for packets of which the kernel's VXLAN device has removed the outer
 * headers: those of nodes with IPv6, fragments, and IPv6 before Linux 6.4. */
SEC("tc")
int from_vxlan(struct __sk_buff *skb)
{
	struct bpf_tunnel_key key = {};
	struct address from = {};
	struct ethhdr inner, *eth = at(skb, 0, sizeof(*eth));
	__u32 vni, interface;

	if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0))
		map_address(&from, bpf_htonl(key.remote_ipv4));
	else if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		copy_words(from.word, key.remote_ipv6);
	vni = key.tunnel_id;
	if (!eth || !bpf_map_lookup_elem(&networks, &vni))
		return drop(skb, 0, UNKNOWN);
	inner = *eth;
	if (skb->vlan_present)
		inner.h_proto = 0;
	interface = receive(skb, vni, bpf_map_lookup_elem(&nodes, &from), &inner);
	return interface ? deliver(skb, vni, interface, inner.h_dest) : TC_ACT_SHOT;
}

/* to_wire drops VXLAN for our Networks that did not come from one of our ports: another pod, or a
 * program of the node with a raw socket, would speak with the address of this node. The kernel forgets
 * the port when the VXLAN device encapsulates, so by_device marks the packet. The mark counts only
 * where the port is forgotten: the node forwards packets of pods that can set it. Raw sockets that skip tc
 * would pass here, and no receiver could tell them from this node: see sockets.c. At the ingress of the
 * loopback interface, it drops VXLAN with the forged address of another node. */
SEC("tc")
int to_wire(struct __sk_buff *skb)
{
	struct config *c = settings();
	__u32 interface = skb->ingress_ifindex, vni;
	struct address to = {};
	int known;

	if (interface ? !!bpf_map_lookup_elem(&ports, &interface) : skb->tc_index == BY_DEVICE)
		return TC_ACT_UNSPEC;
	if (!c || !find_vxlan(skb, c->port, &vni, &to))
		return TC_ACT_UNSPEC;
	/* A packet may be for a Network that only other nodes have. Smaller numbers are other programs', such as that
	 * of the cluster's own network. Hosts that are not nodes may use the port as they like. */
	known = !!bpf_map_lookup_elem(&networks, &vni);
	if (!known && (vni < FIRST_VNI || (skb->ifindex != LOOPBACK && !is_zero(to.word) && !bpf_map_lookup_elem(&nodes, &to))))
		return TC_ACT_UNSPEC;
	/* Made-up numbers would fill the table of drops. */
	return drop(skb, known ? vni : 0, INJECTED);
}

char apache[] SEC("license") = "Apache-2.0";
