/* Reading and writing of headers. */
#include "kernel.h"
#include "layout.h"

/* outer is a VXLAN packet up to the inner IP header (RFC 7348). */
struct outer {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__u32 flags, vni; /* the number is in the upper three bytes */
	struct ethhdr inner;
} __attribute__((packed));

#define OUTER ((int)(sizeof(struct outer) - sizeof(struct ethhdr)))
#define VXLAN_FLAGS bpf_htonl(0x08000000) /* the number is valid */

/* at returns size bytes of the packet from offset on; 0 if it is shorter. Every call can move the
 * packet, so pointers from earlier calls are then invalid. */
static __always_inline void *at(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	if ((void *)(long)skb->data + offset + size > (void *)(long)skb->data_end &&
	    bpf_skb_pull_data(skb, offset + size))
		return 0;
	if ((void *)(long)skb->data + offset + size > (void *)(long)skb->data_end)
		return 0;
	return (void *)(long)skb->data + offset;
}

static __always_inline void copy_mac(__u8 *to, const __u8 *from)
{
	for (int i = 0; i < 6; i++)
		to[i] = from[i];
}

static __always_inline int same_mac(const __u8 *a, const __u8 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4] && a[5] == b[5];
}

static __always_inline void copy_words(__u32 *to, const __u32 *from)
{
	for (int i = 0; i < 4; i++)
		to[i] = from[i];
}

static __always_inline int is_zero(const __u32 *word) { return !(word[0] | word[1] | word[2] | word[3]); }

static __always_inline int same_address(const struct address *a, const struct address *b)
{
	return a->word[3] == b->word[3] && a->word[2] == b->word[2] && a->word[1] == b->word[1] && a->word[0] == b->word[0];
}

static __always_inline int is_mapped(const struct address *a)
{
	return !a->word[0] && !a->word[1] && a->word[2] == bpf_htonl(0xffff);
}

static __always_inline void map_address(struct address *a, __u32 ipv4)
{
	a->word[0] = a->word[1] = 0;
	a->word[2] = bpf_htonl(0xffff);
	a->word[3] = ipv4;
}

/* is_extension says whether an IPv6 header is one before that of TCP or UDP. */
static __always_inline int is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_AH || next == IPPROTO_MH;
}

/* byte_at an offset; 0 if the packet is shorter. */
static __always_inline __u8 byte_at(struct __sk_buff *skb, __u32 offset)
{
	__u8 b = 0;

	bpf_skb_load_bytes(skb, offset, &b, 1);
	return b;
}

/* packet is what the headers of an IP packet say. */
struct packet {
	struct address from, to;
	__u32 start; /* offset of the header after them, of TCP for example */
	__u8 protocol, ipv6;
	__u8 later; /* a fragment other than the first: it has no such header */
};

/* parse returns 0, or why the packet is dropped. */
static __always_inline int parse(struct __sk_buff *skb, __u16 type, struct packet *p)
{
	__u32 start = sizeof(struct ethhdr);
	struct ipv6hdr *ip6;
	struct iphdr *ip;
	__u8 *fragment;

	if (type == bpf_htons(ETH_P_IP)) {
		ip = at(skb, start, sizeof(*ip));
		if (!ip || ip->ihl < 5)
			return TRUNCATED;
		if (ip->version != 4)
			return PROTOCOL;
		map_address(&p->from, ip->saddr);
		map_address(&p->to, ip->daddr);
		p->start = start + ip->ihl * 4;
		p->protocol = ip->protocol;
		p->later = !!(ip->frag_off & bpf_htons(0x1fff));
		return 0;
	}
	if (type != bpf_htons(ETH_P_IPV6))
		return PROTOCOL;
	ip6 = at(skb, start, sizeof(*ip6));
	if (!ip6)
		return TRUNCATED;
	if (ip6->version != 6)
		return PROTOCOL;
	copy_words(p->from.word, ip6->saddr.in6_u.u6_addr32);
	copy_words(p->to.word, ip6->daddr.in6_u.u6_addr32);
	p->ipv6 = 1;
	p->start = start + sizeof(*ip6);
	p->protocol = ip6->nexthdr;
	if (p->protocol == IPPROTO_FRAGMENT) {
		fragment = at(skb, p->start, 8);
		if (!fragment)
			return TRUNCATED;
		p->start += 8;
		p->protocol = fragment[0];
		p->later = fragment[2] || fragment[3] & 0xf8;
	}
	return is_extension(p->protocol) ? EXTENSION : 0;
}

/* wire_size of an IP packet: the size of the largest packet that it becomes on the wire. Messages of
 * SCTP in one packet keep their own sizes, for which the pod's kernel knows the MTU. */
static __always_inline __u32 wire_size(struct __sk_buff *skb, const struct packet *p)
{
	if (!skb->gso_size)
		return skb->len - sizeof(struct ethhdr);
	if (skb->gso_size == GSO_BY_FRAGS)
		return 0;
	return skb->gso_size + p->start - sizeof(struct ethhdr) +
	       (p->protocol == IPPROTO_TCP ? (byte_at(skb, p->start + 12) >> 4) * 4 : sizeof(struct udphdr));
}

static __always_inline int is_ours(const struct outer *out, const struct address *local, __u16 port)
{
	return out->eth.h_proto == bpf_htons(ETH_P_IP) && out->ip.version == 4 && out->ip.ihl == 5 &&
	       (out->ip.tos & 3) != 3 && out->ip.protocol == IPPROTO_UDP && !(out->ip.frag_off & bpf_htons(0x3fff)) && is_mapped(local) && out->ip.daddr == local->word[3] &&
	       out->udp.dest == port && out->flags == VXLAN_FLAGS;
}

static __always_inline void write_outer(struct outer *out, __u32 from, __u32 to, __u16 port, __u16 source, __u32 vni,
					__u16 length, const struct ethhdr *inner)
{
	__u32 sum;

	out->ip.version = 4;
	out->ip.ihl = 5;
	out->ip.tos = 0; /* not capable of ECN: a mark on the outer header would be lost */
	out->ip.tot_len = bpf_htons(length + OUTER);
	out->ip.id = 0;
	out->ip.frag_off = bpf_htons(0x4000); /* never in fragments */
	out->ip.ttl = 64;
	out->ip.protocol = IPPROTO_UDP;
	out->ip.saddr = from;
	out->ip.daddr = to;
	sum = 0x4500 + (__u16)(length + OUTER) + 0x4000 + 0x4000 + IPPROTO_UDP;
	sum += (bpf_ntohl(from) >> 16) + (bpf_ntohl(from) & 0xffff) + (bpf_ntohl(to) >> 16) + (bpf_ntohl(to) & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	out->ip.check = bpf_htons((__u16)~sum);
	out->udp.source = bpf_htons(source);
	out->udp.dest = port;
	out->udp.len = bpf_htons(length + OUTER - sizeof(struct iphdr));
	out->udp.check = 0;
	out->flags = VXLAN_FLAGS;
	out->vni = bpf_htonl(vni << 8);
	out->inner = *inner;
}

/* find_vxlan says whether an Ethernet frame is VXLAN, whatever its IPv4 options and IPv6 extension headers.
 * It reads the frame alone: a raw socket chooses what the kernel takes for its protocol. A receiver takes
 * off all tags of VLAN 0. A frame with more of them, or with more extension headers, than this function
 * looks at counts, and so does a first fragment that ends before port or VNI: the next one holds it. They have
 * a number that no Network has. The first has no destination. */
static __always_inline int find_vxlan(struct __sk_buff *skb, __u16 port, __u32 *vni, struct address *to)
{
	__u32 start = sizeof(struct ethhdr), number;
	struct iphdr ip;
	struct ipv6hdr ip6;
	__u8 next, extension[4];
	__u16 type = bpf_htons(ETH_P_8021Q);

	*vni = ~0U;
	for (int tags = 0; type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD); tags++, start += 4) {
		if (tags == 5)
			return 1;
		if (bpf_skb_load_bytes(skb, start - sizeof(type), &type, sizeof(type)))
			return 0;
	}
	start -= 4;
	if (type == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, start, &ip6, sizeof(ip6)))
			return 0;
		copy_words(to->word, ip6.daddr.in6_u.u6_addr32);
		start += sizeof(ip6);
		next = ip6.nexthdr;
		for (int headers = 0; next != IPPROTO_UDP; headers++, next = extension[0]) {
			if (!is_extension(next))
				return 0;
			if (headers == 6 || bpf_skb_load_bytes(skb, start, extension, sizeof(extension)))
				return 1;
			if (next == IPPROTO_FRAGMENT && (extension[2] || extension[3] & 0xf8))
				return 0;
			start += next == IPPROTO_FRAGMENT ? 8 : next == IPPROTO_AH ? (extension[1] + 2) * 4 : (extension[1] + 1) * 8;
		}
	} else {
		if (type != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, start, &ip, sizeof(ip)) || ip.protocol != IPPROTO_UDP ||
		    (ip.frag_off & bpf_htons(0x1fff)) || ip.ihl < 5)
			return 0;
		map_address(to, ip.daddr);
		start += ip.ihl * 4;
	}
	if (bpf_skb_load_bytes(skb, start + __builtin_offsetof(struct udphdr, dest), &type, sizeof(type)))
		return 1;
	if (type != port)
		return 0;
	if (!bpf_skb_load_bytes(skb, start + sizeof(struct udphdr) + 4, &number, sizeof(number)))
		*vni = bpf_ntohl(number) >> 8;
	return 1;
}
