/* The gateway of each Network: packets for the outside, and answers. The node's stack is at the other end of pod2gw. */
#include "nat.h"

/* to_outside takes a packet for the gateway. It returns the reason to drop it, or 0 and where it goes. */
static __always_inline int to_outside(struct __sk_buff *skb, struct port *port, const struct network *network, const struct ethhdr *eth, struct packet *p, __u32 *interface, __u64 *flags)
{
	struct config *c = settings();
	struct ethhdr *head;
	int reason;

	if ((!is_zero(network->gateway.word) && same_address(&p->to, &network->gateway)) || is_link_local_of(p->to.word, network->mac))
		return answer_echo(skb, p, eth);
	/* A link-local address does not leave the link. */
	if (!c || !c->gateway || is_link_local(p->to.word) || is_zero(network->gateway.word) || p->ipv6 == is_mapped(&network->gateway) || !same_address(&p->from, &port->ip) ||
	    is_inside(&p->to, network) || is_zero(port->transit.word))
		return UNKNOWN;
	if (!network->egress)
		return EGRESS;
	reason = translate(skb, p, 1, &p->from, &port->transit);
	if (reason)
		return reason;
	head = at(skb, 0, sizeof(*head));
	if (!head)
		return FAILED;
	copy_mac(head->h_dest, c->mac);
	*interface = c->gateway;
	*flags = BPF_F_INGRESS;
	return 0;
}

/* to_gateway marks packets that the node routes to pods, at the egress of pod2gw. It drops the node's own: those of
 * its sockets, of raw sockets, and the ICMP errors that the node makes. */
SEC("tc")
int to_gateway(struct __sk_buff *skb)
{
	if (!skb->ingress_ifindex)
		return drop(skb, 0, INJECTED);
	skb->tc_index = BY_GATEWAY;
	return TC_ACT_UNSPEC;
}

/* from_gateway sees these packets at the ingress of pod2gwp, the other end. Packets without the mark are those of raw
 * sockets that skip tc. */
SEC("tc")
int from_gateway(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct network *network;
	struct port *found, port;
	struct ethhdr *eth;
	__u32 *interface, index, vni;
	int verdict;

	if (skb->tc_index != BY_GATEWAY)
		return drop(skb, 0, INJECTED);
	skb->tc_index = 0;
	verdict = parse(skb, skb->protocol, &packet);
	if (verdict)
		return drop(skb, 0, verdict);
	interface = bpf_map_lookup_elem(&transits, &packet.to);
	if (!interface)
		return drop(skb, 0, UNKNOWN);
	index = *interface;
	found = bpf_map_lookup_elem(&ports, &index);
	if (!found)
		return drop(skb, 0, UNKNOWN);
	port = *found;
	vni = port.vni;
	network = bpf_map_lookup_elem(&networks, &vni);
	if (!network || !same_address(&port.transit, &packet.to) || packet.ipv6 == is_mapped(&port.ip))
		return drop(skb, vni, UNKNOWN);
	if (!network->egress)
		return drop(skb, vni, EGRESS);
	verdict = translate(skb, &packet, 0, &packet.to, &port.ip);
	if (verdict)
		return drop(skb, vni, verdict);
	eth = at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, vni, FAILED);
	copy_mac(eth->h_dest, port.mac);
	copy_mac(eth->h_source, network->mac);
	return deliver(skb, vni, index, port.mac);
}
