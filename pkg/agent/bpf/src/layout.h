/* What the maps hold. maps.go and package tables have the same in Go, and TestLayout compares them.
 *
 * An address has 16 bytes; an IPv4 address is mapped (::ffff:192.168.0.2). A MAC address is in
 * the order of the wire, a number in the order of the machine. If a structure changes, raise
 * layoutVersion in load.go: its maps are pinned under that number.
 */
#include <linux/types.h>

struct address {
	__u32 word[4];
};

/* ports: the host's end of the veth of each pod, by interface index. */
struct port {
	__u32 vni;
	__u8 mac[6];
	__u16 zero;
	struct address ip;
	struct address transit; /* that the node sees instead of ip; zero: none is free */
};

/* transits: the interface of the port with that transit address, by address. */

/* places: where the owner of a MAC address is. */
struct place_key {
	__u32 vni;
	__u8 mac[6];
	__u16 zero;
};

struct place {
	__u32 interface; /* of a local port; 0: on node */
	struct address node;
	struct address ip; /* for which ARP and neighbour solicitations are answered */
};

/* networks, by VNI. */
struct network {
	__u32 mtu;
	__u32 bits; /* of the CIDR that has the gateway; 96 more for IPv4, as its addresses are mapped */
	struct address gateway; /* zero: none */
	__u8 mac[6]; /* of the gateway, the same on every node */
	__u16 egress; /* 1: packets may leave through the gateway */
};

/* nodes: who may send VXLAN, and the interface that leads there. */
struct node {
	__u32 interface; /* 0: none, or one without Ethernet headers */
	__u32 direct;	 /* 1: the node is on the link, so its address is the next hop */
};

/* config has one entry. */
struct config {
	struct address local; /* of this node, that VXLAN packets have; zero: unknown */
	__u32 vxlan;   /* interface of the VXLAN device */
	__u32 gateway; /* interface pod2gw */
	__u16 port;    /* of UDP, in the order of the wire */
	__u8 mac[6];   /* of pod2gw */
};

/* drops: dropped packets, on each CPU. */
struct drop_key {
	__u32 vni;       /* 0: not known */
	__u32 interface; /* that the packet came from */
	__u32 reason;
};

enum reason {
	STRANGER = 1, /* the port or its Network is not known */
	MAC,          /* the sender's MAC address is another's */
	IP,           /* the sender's IP address is another's */
	ARP,          /* ARP that claims another's address */
	ND,           /* an advertisement, a redirect, or a solicitation with another's address */
	PROTOCOL,     /* neither IP nor ARP: a VLAN tag, for example */
	EXTENSION,    /* an IPv6 extension header that could hide neighbour discovery */
	TRUNCATED,    /* shorter than its headers */
	MULTICAST,    /* to a group or to everybody */
	UNKNOWN,      /* nobody has the destination's MAC address */
	OVERSIZED,    /* larger than the Network's MTU */
	VXLAN,        /* VXLAN of a sender that is not a node */
	INJECTED,     /* put onto a port or the wire by a program of the node */
	FAILED,       /* the kernel could not rewrite the packet */
	EGRESS,       /* to the outside of a Network without egress */
};
