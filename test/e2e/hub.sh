#!/usr/bin/env bash
# The first process of the hub, a network namespace that stands for all that is not a node: the network between the nodes,
# the machine of the control plane, and the world. test/e2e/e2e.sh starts it, in a PID namespace of its own: all that this
# starts ends with it.
#
#   fabric  172.18.0.1/24     a bridge; node1 is 172.18.0.11, its pods' eth0 10.244.1.0/24, and so on
#   lo      10.96.0.1         the API server, by the address of its Service: nothing has to translate it for pods
#           10.96.0.10        CoreDNS, likewise
#           203.0.113.10      the world: a netprobe, which says by which address it was asked
set -euo pipefail

nodes=$1 bin=$2 kubeconfig=$3
dir=$(dirname -- "$0")

# keep runs a command again whenever it ends.
keep() {
  local log=$1
  shift
  while :; do
    "$@" &>>"$log" || true
    sleep 1
  done
}

net=$bin/e2e/nodenet
"$net" up lo 10.96.0.1/32 10.96.0.10/32 203.0.113.10/32
"$net" bridge fabric
"$net" up fabric 172.18.0.1/24
echo 1 >/proc/sys/net/ipv4/ip_forward
for ((i = 1; i <= nodes; i++)); do
  "$net" route "10.244.$i.0/24" "172.18.0.1$i"
done
# The same for IPv6, where the kernel has it.
if [[ -e /proc/net/if_inet6 ]]; then
  "$net" up lo 2001:db8:113::10/128
  "$net" up fabric fd00:18::1/64
  echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
fi

cat >"$dir/Corefile" <<COREFILE
.:53 {
  bind 10.96.0.10
  errors
  kubernetes cluster.local {
    kubeconfig $kubeconfig
  }
}
COREFILE
keep "$dir/world.log" "$bin/e2e/netprobe" serve :80 &
: >"$dir/ready"
until [[ -s $kubeconfig ]]; do sleep 0.2; done
keep "$dir/coredns.log" "$bin/coredns" -conf "$dir/Corefile" &
wait
