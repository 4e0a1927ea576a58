/* The kernel's own headers, and what the headers of Debian 12 lack. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define DECAP_L3_IPV6 (1ULL << 8) /* BPF_F_ADJ_ROOM_DECAP_L3_IPV6, from Linux 6.4 on */
#define GSO_BY_FRAGS 0xffff	  /* gso_size of SCTP */
#define BY_DEVICE 0x706f	  /* tc_index of a packet for the VXLAN device */
#define BY_GATEWAY 0x7067	  /* tc_index of a packet that the node routed to pod2gw */
#define AF_INET 2
#define LOOPBACK 1		  /* the index of lo in each network namespace */
#define FIRST_VNI (1 << 16)	  /* the controller assigns numbers from here on */
