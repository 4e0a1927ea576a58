#!/usr/bin/env bash
# The first process of a node: containerd and a kubelet in their own network, mount, PID, IPC and UTS namespaces, below their
# own cgroup. The script test/e2e/e2e.sh starts this one, and ends the node by killing it. The kernel then ends all other
# processes of the PID namespace, and with the last process of a mount or network namespace everything in it.
#
#   node.sh NAME NUMBER CGROUP TOOLS     meanwhile test/e2e/e2e.sh puts a link eth0 into the network namespace
#
# The node's root is a file system in memory with the paths that software for nodes expects. The machine's /usr and the
# directories that belong to it are mounted read-only. Directories next to this script are mounted as /var/lib/kubelet,
# /var/lib/containerd, /var/log, /etc/kubernetes and /etc/cni/net.d. The script test/e2e/e2e.sh writes to the last two.
set -euo pipefail

name=$1 number=$2 cgroup=$3 tools=$4
dir=$(dirname -- "$0")
address=172.18.0.1$number listen=172.18.0.1$number addresses=172.18.0.1$number
root=$dir/root

# bind SOURCE DIRECTORY mounts a directory of the machine in the node.
bind() {
  mkdir -p -- "$1" "$root$2"
  mount --rbind "$1" "$root$2"
}

make_root() {
  local path file
  mkdir -p -- "$root"
  mount -t tmpfs -o mode=755 "$name" "$root"
  mkdir -p "$root"/{etc,dev,proc,sys,run,root,var/lib/cni,opt/cni/bin,old}
  ln -s ../run "$root/var/run" # containerd mounts the pods' network namespaces there
  mkdir -m 1777 "$root/tmp"
  for path in /bin /sbin /lib /lib32 /lib64 /libx32 /usr; do
    if [[ -L $path ]]; then
      cp -P "$path" "$root$path"
    elif [[ -d $path ]]; then
      bind "$path" "$path"
      mount -o remount,bind,ro "$root$path"
    fi
  done
  for path in alternatives group ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf passwd protocols services; do
    [[ ! -e /etc/$path ]] || cp -a "/etc/$path" "$root/etc/"
  done
  printf '%s\n' "$name" >"$root/etc/hostname"
  printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >"$root/etc/hosts"
  printf 'nameserver 10.96.0.10\n' >"$root/etc/resolv.conf"
  tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
  bind "$dir/kubelet" /var/lib/kubelet
  bind "$dir/containerd" /var/lib/containerd
  bind "$dir/log" /var/log
  bind "$dir/kubernetes" /etc/kubernetes
  bind "$dir/cni" /etc/cni/net.d
  bind "$tools" /opt/pod2
  mount -o remount,bind,ro "$root/opt/pod2"
  for file in "$tools"/cni/*; do
    ln -s "/opt/pod2/cni/${file##*/}" "$root/opt/cni/bin/"
  done
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
  mount -t bpf -o mode=700 bpf "$root/sys/fs/bpf" # a new one, so each node has its own pinned maps
}

# If these sysctls have other values, a kubelet sets them for the whole machine and never resets them. So it finds them set,
# in files of the node.
hide_sysctls() {
  local setting file
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=$root/run/sysctl/${setting%=*}
    mkdir -p "${file%/*}"
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "$root/proc/sys/${setting%=*}"
  done
}

join_network() {
  local i net=$tools/nodenet
  "$net" up lo
  until grep -q '^ *eth0:' /proc/net/dev; do sleep 0.05; done
  "$net" up eth0 "$address/24"
  "$net" route 0.0.0.0/0 172.18.0.1
  for i in 1 2 3; do
    ((i == number)) || "$net" route "10.244.$i.0/24" "172.18.0.1$i"
  done
  echo 1 >/proc/sys/net/ipv4/ip_forward
  if [[ -e /proc/net/if_inet6 ]]; then
    "$net" up eth0 "fd00:18::1$number/64"
    "$net" route ::/0 fd00:18::1
    listen=:: addresses+=,fd00:18::1$number
  fi
}

configure() {
  local snapshotter=overlayfs
  # Not every file system supports overlays; all support copies.
  mkdir -p "$dir"/overlay/{lower,upper,work,merged}
  if mount -t overlay -o "lowerdir=$dir/overlay/lower,upperdir=$dir/overlay/upper,workdir=$dir/overlay/work" \
    overlay "$dir/overlay/merged"; then
    umount "$dir/overlay/merged"
  else
    snapshotter=native
  fi
  mkdir -p "$root/etc/containerd"
  # restrict_oom_score_adj: a container that runs the tests may not be allowed to lower the score.
  cat >"$root/etc/containerd/config.toml" <<TOML
version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "$snapshotter"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "docker.io/library/pause:e2e"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  snapshotter = "$snapshotter"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = "/opt/pod2/plainrunc"
TOML
  # Eviction and garbage collection depend on the free space of the machine's disk, which the node does not control.
  # enforceNodeAllocatable and failCgroupV1 are for machines with only cgroup v1.
  cat >"$dir/kubernetes/config.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "$listen"
tlsCertFile: /etc/kubernetes/serving.crt
tlsPrivateKeyFile: /etc/kubernetes/serving.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/ca.crt}
authorization: {mode: Webhook}
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
YAML
}

# keep restarts a command whenever it ends, as systemd would.
keep() {
  local log=$1
  shift
  while :; do
    "$@" &>>"$log" || true
    sleep 1
  done
}

make_root
hide_sysctls
join_network
configure
echo "$name" >/proc/sys/kernel/hostname
cd "$root"
pivot_root . old
export PATH=/opt/pod2:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root # the machine's PATH and HOME may not exist here
umount -l /old
rmdir /old
mount --make-rshared / # for kubelets, and pods with mountPropagation
keep /var/log/containerd.log containerd &
until [[ -e /etc/kubernetes/kubeconfig ]]; do sleep 0.1; done
keep /var/log/kubelet.log kubelet --config=/etc/kubernetes/config.yaml --kubeconfig=/etc/kubernetes/kubeconfig \
  --hostname-override="$name" --node-ip="$addresses" &
wait
