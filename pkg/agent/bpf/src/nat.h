/* NAT between the address of a pod and its transit address, one for one and without state. The node
 * routes the transit address, and has the state of connections.
 *
 *	192.168.0.2 of the pod <--> 100.64.0.17 on the node <--> the address of the node
 */
#include "tables.h"

/* checksum_of a protocol: the offset in its header of a checksum that covers the addresses; 0: it has none. */
static __always_inline __u32 checksum_of(const struct packet *p)
{
	switch (p->protocol) {
	case IPPROTO_TCP:
		return 16;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_DCCP:
		return 6;
	case IPPROTO_ICMPV6:
		return p->ipv6 ? 2 : 0;
	}
	return 0;
}

/* is_error says whether the message is an ICMP error, which quotes a packet. */
static __always_inline int is_error(const struct packet *p, __u8 type)
{
	if (p->later)
		return 0;
	if (p->ipv6)
		return p->protocol == IPPROTO_ICMPV6 && type < 128;
	return p->protocol == IPPROTO_ICMP && (type == 3 || type == 4 || type == 5 || type == 11 || type == 12);
}

static __always_inline long get_address(struct __sk_buff *skb, const struct packet *p, __u32 offset, struct address *a)
{
	if (p->ipv6)
		return bpf_skb_load_bytes(skb, offset, a, sizeof(*a));
	map_address(a, 0);
	return bpf_skb_load_bytes(skb, offset, &a->word[3], sizeof(a->word[3]));
}

static __always_inline __u32 source_of(const struct packet *p) { return p->ipv6 ? 8 : 12; }
static __always_inline __u32 destination_of(const struct packet *p) { return p->ipv6 ? 24 : 16; }

/* put an address at an offset. The checksum of an IPv4 header changes with it. */
static __always_inline long put_address(struct __sk_buff *skb, const struct packet *p, __u32 offset, const struct address *to, __u64 flags)
{
	if (p->ipv6)
		return bpf_skb_store_bytes(skb, offset, to, sizeof(*to), flags);
	return bpf_skb_store_bytes(skb, offset, &to->word[3], sizeof(to->word[3]), 0);
}

/* translate the source or the destination of a packet. A packet that an ICMP error quotes went the other way, so
 * there it is the other address. The checksum of what follows the quoted IP header stays: nobody checks it. It returns
 * 0, or why the packet is dropped. */
static __always_inline int translate(struct __sk_buff *skb, const struct packet *p, int source, struct address *from, struct address *to)
{
	__u32 address = sizeof(struct ethhdr) + (source ? source_of(p) : destination_of(p));
	__u32 quoted = p->start + 8, quoted_address = quoted + (source ? destination_of(p) : source_of(p));
	__u32 checksum = p->later ? 0 : checksum_of(p), diff = bpf_csum_diff(from->word, sizeof(*from), to->word, sizeof(*to), 0);
	struct address is;

	/* An IPv6 header has no checksum. If the kernel has one of the whole packet, it follows both changes. */
	if (put_address(skb, p, address, to, BPF_F_RECOMPUTE_CSUM) || (!p->ipv6 && bpf_l3_csum_replace(skb, sizeof(struct ethhdr) + 10, 0, diff, 0)))
		return FAILED;
	if (checksum && bpf_l4_csum_replace(skb, p->start + checksum, 0, diff, BPF_F_PSEUDO_HDR | (p->protocol == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0)))
		return TRUNCATED;
	if (!is_error(p, byte_at(skb, p->start)))
		return 0;
	if (get_address(skb, p, quoted_address, &is))
		return TRUNCATED;
	if (!same_address(&is, from))
		return 0; /* the conntrack of the node drops it */
	if (put_address(skb, p, quoted_address, to, 0))
		return FAILED;
	/* The checksum of ICMP covers the quoted IPv4 header, in which both changes cancel each other out. */
	return (p->ipv6 ? bpf_l4_csum_replace(skb, p->start + 2, 0, diff, 0) : bpf_l3_csum_replace(skb, quoted + 10, 0, diff, 0)) ? FAILED : 0;
}

/* is_inside says whether an address is in the CIDR of the Network. */
static __always_inline int is_inside(const struct address *a, const struct network *network)
{
	__u32 bits = network->bits, differ = 0;

	for (int i = 0; i < 4; i++) {
		__u32 n = bits > 32 ? 32 : bits;

		differ |= (a->word[i] ^ network->gateway.word[i]) & (n ? bpf_htonl(~0U << (32 - n)) : 0);
		bits -= n;
	}
	return !differ;
}

/* answer_echo: the gateway answers ICMP echo requests. It answers each fragment of one for itself: the asker puts
 * them together. It returns 0, or why the packet is dropped. */
static __always_inline int answer_echo(struct __sk_buff *skb, const struct packet *p, const struct ethhdr *eth)
{
	__u8 request = p->ipv6 ? 128 : 8, reply = p->ipv6 ? 129 : 0;
	struct ethhdr *head;

	if (p->protocol != (p->ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP) || (!p->later && byte_at(skb, p->start) != request))
		return UNKNOWN;
	if (!p->later && (bpf_l4_csum_replace(skb, p->start + 2, bpf_htons(request << 8), bpf_htons(reply << 8), 2) ||
			  bpf_skb_store_bytes(skb, p->start, &reply, 1, 0)))
		return TRUNCATED;
	if (put_address(skb, p, sizeof(*eth) + source_of(p), &p->to, 0) || put_address(skb, p, sizeof(*eth) + destination_of(p), &p->from, 0))
		return FAILED;
	head = at(skb, 0, sizeof(*head));
	if (!head)
		return FAILED;
	copy_mac(head->h_dest, eth->h_source);
	copy_mac(head->h_source, eth->h_dest);
	return 0;
}
