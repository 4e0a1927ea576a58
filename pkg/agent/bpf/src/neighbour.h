/* ARP (RFC 826) and neighbour discovery (RFC 4861). Pods ask; the programs answer from the map of
 * places. Nothing of it ever reaches another pod or the wire. */
#include "packet.h"

struct neighbour {
	struct address ip; /* that a pod asks for */
	__u8 mac[6];       /* that this address has, if anybody has it */
	__u8 asked, link_local, router;
};

struct arp {
	struct ethhdr eth;
	__u16 hardware, protocol;
	__u8 hardware_size, protocol_size;
	__u16 operation;
	__u8 sender_mac[6];
	__u32 sender;
	__u8 target_mac[6];
	__u32 target;
} __attribute__((packed));

enum { SOLICITATION = 135, ADVERTISEMENT = 136, ROUTER_ADVERTISEMENT = 134, REDIRECT = 137 };

/* advertisement, with the option that has the MAC address. */
struct advertisement {
	struct ethhdr eth;
	struct ipv6hdr ip;
	__u8 type, code;
	__u16 check;
	__u32 flags;
	struct address target;
	__u8 option, option_size; /* in units of eight bytes */
	__u8 mac[6];
} __attribute__((packed));

/* mac_of an address: 0a:58 and its last four bytes. */
static __always_inline void mac_of(__u8 *mac, __u32 last)
{
	mac[0] = 0x0a;
	mac[1] = 0x58;
	__builtin_memcpy(mac + 2, &last, sizeof(last));
}

static __always_inline int is_link_local(const __u32 *word) { return word[0] == bpf_htonl(0xfe800000) && !word[1]; }

/* is_link_local_of a MAC address (RFC 4291, appendix A). */
static __always_inline int is_link_local_of(const __u32 *word, const __u8 *mac)
{
	return is_link_local(word) && word[2] == ((mac[0] ^ 2) | mac[1] << 8 | mac[2] << 16 | 0xffU << 24) &&
	       word[3] == (0xfe | mac[3] << 8 | mac[4] << 16 | (__u32)mac[5] << 24);
}

static __always_inline int check_arp(struct __sk_buff *skb, const struct port *port, struct neighbour *n)
{
	struct arp *p = at(skb, 0, sizeof(*p));

	if (!p)
		return TRUNCATED;
	if (!same_mac(p->sender_mac, port->mac) || !is_mapped(&port->ip) || (p->sender && p->sender != port->ip.word[3]))
		return ARP;
	if (p->operation != bpf_htons(1))
		return MULTICAST; /* it tells its own address, which everybody knows */
	map_address(&n->ip, p->target);
	mac_of(n->mac, p->target);
	n->asked = 1;
	return 0;
}

/* check_ip checks the sender of an IP packet, and notes for whom a neighbour solicitation asks. */
static __always_inline int check_ip(struct __sk_buff *skb, const struct port *port, const struct ethhdr *eth, struct packet *p, struct neighbour *n)
{
	int reason = parse(skb, eth->h_proto, p), multicast = eth->h_dest[0] & 1, own, unspecified;
	struct address *target;
	__u8 type;

	/* An extension header could hide an advertisement, and pods do not need them. */
	if (reason)
		return reason == EXTENSION && multicast ? MULTICAST : reason;
	own = same_address(&p->from, &port->ip) || is_link_local_of(p->from.word, port->mac);
	unspecified = is_zero(p->from.word);
	if (p->ipv6 && p->protocol == IPPROTO_ICMPV6 && !p->later) {
		if (bpf_skb_load_bytes(skb, p->start, &type, sizeof(type)))
			return TRUNCATED;
		if (type == ADVERTISEMENT || type == ROUTER_ADVERTISEMENT || type == REDIRECT)
			return ND;
		if (type == SOLICITATION) {
			target = at(skb, __builtin_offsetof(struct advertisement, target), sizeof(*target));
			if (!target || p->start != __builtin_offsetof(struct advertisement, type) || !(own || unspecified))
				return ND; /* in fragments, too */
			copy_words(n->ip.word, target->word);
			n->asked = 1;
			mac_of(n->mac, n->ip.word[3]);
			if (is_link_local(n->ip.word)) {
				n->mac[0] = (n->ip.word[2] & 0xff) ^ 2;
				n->mac[1] = n->ip.word[2] >> 8 & 0xff;
				n->mac[2] = n->ip.word[2] >> 16 & 0xff;
				n->link_local = is_link_local_of(n->ip.word, n->mac);
			}
			return 0;
		}
	}
	if (own)
		return 0;
	return unspecified && multicast ? MULTICAST : IP;
}

/* is_gateway says whether the gateway is asked for, and then notes its MAC address. */
static __always_inline int is_gateway(struct neighbour *n, const struct network *network)
{
	n->router = n->link_local ? same_mac(n->mac, network->mac) : !is_zero(network->gateway.word) && same_address(&n->ip, &network->gateway);
	if (n->router)
		copy_mac(n->mac, network->mac);
	return n->router;
}

static __always_inline int answer_arp(struct __sk_buff *skb, const struct neighbour *n)
{
	struct arp *p = at(skb, 0, sizeof(*p));

	if (!p)
		return -1;
	copy_mac(p->eth.h_dest, p->sender_mac);
	copy_mac(p->eth.h_source, n->mac);
	p->operation = bpf_htons(2);
	copy_mac(p->target_mac, p->sender_mac);
	p->target = p->sender;
	copy_mac(p->sender_mac, n->mac);
	p->sender = n->ip.word[3];
	return 0;
}

/* answer_solicitation. Who asks whether an address is free has none yet: all nodes get the answer
 * (RFC 4861, 7.2.4), that is, the asker. */
static __always_inline int answer_solicitation(struct __sk_buff *skb, const struct neighbour *n)
{
	const __u32 size = sizeof(struct advertisement) - __builtin_offsetof(struct advertisement, type);
	struct advertisement *p;
	__u32 *from, *to, has_address, sum;

	if (bpf_skb_change_tail(skb, sizeof(*p), 0))
		return -1;
	p = at(skb, 0, sizeof(*p));
	if (!p)
		return -1;
	from = p->ip.saddr.in6_u.u6_addr32;
	to = p->ip.daddr.in6_u.u6_addr32;
	has_address = !is_zero(from);
	copy_words(to, from);
	if (!has_address) {
		to[0] = bpf_htonl(0xff020000);
		to[3] = bpf_htonl(1);
	}
	copy_words(from, n->ip.word);
	copy_mac(p->eth.h_dest, p->eth.h_source);
	copy_mac(p->eth.h_source, n->mac);
	p->ip.payload_len = bpf_htons(size);
	p->ip.nexthdr = IPPROTO_ICMPV6;
	p->ip.hop_limit = 255;
	p->type = ADVERTISEMENT;
	p->code = p->check = 0;
	p->flags = bpf_htonl((n->router ? 1U << 31 : 0) | (has_address ? 1U << 30 : 0) | 1U << 29);
	copy_words(p->target.word, n->ip.word);
	p->option = 2;
	p->option_size = 1;
	copy_mac(p->mac, n->mac);
	/* The checksum covers size, protocol, both addresses and the message (RFC 4443, 2.3). */
	sum = bpf_csum_diff(0, 0, from, 2 * sizeof(struct address) + size, bpf_htonl(size + IPPROTO_ICMPV6));
	sum = (sum >> 16) + (sum & 0xffff);
	p->check = ~((sum >> 16) + sum);
	return 0;
}
