/* The gateway of each Network: packets for the outside, and answers. The node's stack is at the other end of pod2gw. */
#include "nat.h"

/* to_outside takes a packet for the gateway. It returns the reason to drop it, or 0 and where it goes. */
static __always_inline int to_outside(struct __sk_buff *skb, struct port *port, const struct network *network, const struct ethhdr *eth, __u32 *interface, __u64 *flags)
{
	struct config *c = settings();
	struct transport transport = {};
	struct address from = {}, to = {};
	struct ethhdr *head;
	int reason = find_transport(skb, eth->h_proto, &transport);
	__u32 id[2];

	if (reason)
		return reason;
	get_address(skb, &transport, sizeof(*eth) + source_of(&transport), &from);
	get_address(skb, &transport, sizeof(*eth) + destination_of(&transport), &to);
	interface_id(id, network->mac);
	if ((!is_zero(network->gateway.word) && same_address(&to, &network->gateway)) ||
	    (transport.ipv6 && is_link_local(to.word) && to.word[2] == id[0] && to.word[3] == id[1]))
		return answer_echo(skb, &transport, eth);
	/* A link-local address does not leave the link. */
	if (!c || !c->gateway || (transport.ipv6 && is_link_local(to.word)) || is_zero(network->gateway.word) || transport.ipv6 == is_mapped(&network->gateway) || !same_address(&from, &port->ip) ||
	    is_inside(&to, network) || is_zero(port->transit.word))
		return UNKNOWN;
	if (!network->egress)
		return EGRESS;
	reason = translate(skb, &transport, 1, &from, &port->transit);
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
	struct transport transport = {};
	struct address to = {};
	struct network *network;
	struct port *found, port;
	struct ethhdr *eth;
	__u32 *interface, index, vni;
	int verdict;

	if (skb->tc_index != BY_GATEWAY)
		return drop(skb, 0, INJECTED);
	skb->tc_index = 0;
	verdict = skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6) ? find_transport(skb, skb->protocol, &transport) : PROTOCOL;
	if (verdict)
		return drop(skb, 0, verdict);
	get_address(skb, &transport, sizeof(*eth) + destination_of(&transport), &to);
	interface = bpf_map_lookup_elem(&transits, &to);
	if (!interface)
		return drop(skb, 0, UNKNOWN);
	index = *interface;
	found = bpf_map_lookup_elem(&ports, &index);
	if (!found)
		return drop(skb, 0, UNKNOWN);
	port = *found;
	vni = port.vni;
	network = bpf_map_lookup_elem(&networks, &vni);
	if (!network || !same_address(&port.transit, &to) || transport.ipv6 == is_mapped(&port.ip))
		return drop(skb, vni, UNKNOWN);
	if (!network->egress)
		return drop(skb, vni, EGRESS);
	verdict = translate(skb, &transport, 0, &to, &port.ip);
	if (verdict)
		return drop(skb, vni, verdict);
	eth = at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, vni, FAILED);
	copy_mac(eth->h_dest, port.mac);
	copy_mac(eth->h_source, network->mac);
	return deliver(skb, vni, index, port.mac);
}
