/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A program for sockets of the node. It reads structures of the kernel, so it is an object of its own: the loader
 * finds their fields in the types (BTF) of the running kernel. Newer kernels show them only to programs under the GPL, so
 * this file has that license, too.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>

#include <bpf/bpf_helpers.h>

#define SOL_PACKET 263
#define SOL_XDP 283
#define OF_KERNEL __attribute__((preserve_access_index))

struct net {
	__u64 net_cookie;
} OF_KERNEL;

typedef struct {
	struct net *net;
} OF_KERNEL possible_net_t;

struct sock_common {
	possible_net_t skc_net;
} OF_KERNEL;

struct sock {
	struct sock_common __sk_common;
} OF_KERNEL;

struct socket {
	struct sock *sk;
} OF_KERNEL;

const volatile __u64 node; /* cookie of the node's network namespace */

/* no_bypass refuses the two options by which a socket sends past tc (packet(7), AF_XDP) in the network namespace of the
 * node. From others, packets come by from_port or by no interface of ours. The kernel asks this function for each
 * system call that sets an option: those of 32-bit programs and of io_uring, too. */
SEC("fmod_ret/security_socket_setsockopt")
int no_bypass(__u64 *arguments)
{
	struct socket *socket = (void *)arguments[0];
	int level = arguments[1], option = arguments[2];
	int bypass = (level == SOL_PACKET && option == PACKET_QDISC_BYPASS) || (level == SOL_XDP && option == XDP_TX_RING);

	return bypass && socket->sk->__sk_common.skc_net.net->net_cookie == node ? -EPERM : 0;
}

char gpl[] SEC("license") = "GPL";
