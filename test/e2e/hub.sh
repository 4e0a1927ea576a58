#!/usr/bin/env bash
# The first process of the hub. The hub is a network namespace for everything except the nodes: the network between them, the
# machine of the control plane, and the world. test/e2e/e2e.sh starts this script in its own PID namespace, so all processes
# that it starts end with it.
#
#   fabric  172.18.0.1/24     a bridge; node1 is 172.18.0.11, its pods' eth0 10.244.1.0/24, and so on
#   lo      10.96.0.1         the API server, at the address of its Service: pods need no translation
#           10.96.0.10        CoreDNS, likewise
#           203.0.113.10      the world: a netprobe, which prints the address that a request came from
#           169.254.169.254   the same, at the address of the metadata service of clouds
set -euo pipefail

nodes=$1 bin=$2 kubeconfig=$3
dir=$(dirname -- "$0")

# keep restarts a command whenever it ends.
keep() {
  local log=$1
  shift
  while :; do
    "$@" &>>"$log" || true
    sleep 1
  done
}

net=$bin/e2e/nodenet
"$net" up lo 10.96.0.1/32 10.96.0.10/32 203.0.113.10/32 169.254.169.254/32
"$net" bridge fabric
"$net" up fabric 172.18.0.1/24
echo 1 >/proc/sys/net/ipv4/ip_forward
for ((i = 1; i <= nodes; i++)); do
  "$net" route "10.244.$i.0/24" "172.18.0.1$i"
done
# The same for IPv6, if the kernel has it.
if [[ -e /proc/net/if_inet6 ]]; then
  "$net" up lo 2001:db8:113::10/128 fd00:ec2::254/128
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
