/* The maps, and the verdicts that depend on them. */
#include "neighbour.h"

#define TABLE(name, kind, size, key_type, value_type)                  \
	struct {                                                       \
		__uint(type, kind);                                    \
		__uint(max_entries, size);                             \
		__uint(map_flags, kind == BPF_MAP_TYPE_ARRAY ? 0 : BPF_F_NO_PREALLOC); \
		__type(key, key_type);                                 \
		__type(value, value_type);                             \
	} name SEC(".maps")

TABLE(ports, BPF_MAP_TYPE_HASH, 4096, __u32, struct port);
TABLE(places, BPF_MAP_TYPE_HASH, 1 << 18, struct place_key, struct place);
TABLE(transits, BPF_MAP_TYPE_HASH, 4096, struct address, __u32);
TABLE(networks, BPF_MAP_TYPE_HASH, 1 << 14, __u32, struct network);
TABLE(nodes, BPF_MAP_TYPE_HASH, 1 << 15, struct address, struct node);
TABLE(config, BPF_MAP_TYPE_ARRAY, 1, __u32, struct config);
TABLE(drops, BPF_MAP_TYPE_PERCPU_HASH, 1 << 14, struct drop_key, __u64);

static __always_inline int drop(struct __sk_buff *skb, __u32 vni, __u32 reason)
{
	struct drop_key key = {.vni = vni, .interface = skb->ifindex, .reason = reason};
	__u64 first = 1, *count = bpf_map_lookup_elem(&drops, &key);

	if (count)
		(*count)++;
	else
		bpf_map_update_elem(&drops, &key, &first, BPF_ANY);
	return TC_ACT_SHOT;
}

static __always_inline struct config *settings(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&config, &first);
}

static __always_inline struct place *place_of(__u32 vni, const __u8 *mac)
{
	struct place_key key = {.vni = vni};

	copy_mac(key.mac, mac);
	return bpf_map_lookup_elem(&places, &key);
}

/* deliver to a pod of this node. An index may have been used again since the place
 * was written, so the port must still be that of the destination. */
static __always_inline int deliver(struct __sk_buff *skb, __u32 vni, __u32 interface, const __u8 *mac)
{
	struct port *port = bpf_map_lookup_elem(&ports, &interface);

	if (!port || port->vni != vni || !same_mac(port->mac, mac))
		return drop(skb, vni, UNKNOWN);
	/* The host's end of a veth has another MAC, so the packet counts as for another host. Older kernels
	 * keep that when they redirect it. */
	bpf_skb_change_type(skb, PACKET_HOST);
	return bpf_redirect_peer(interface, 0);
}
