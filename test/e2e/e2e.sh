#!/usr/bin/env bash
# A local cluster with real nodes. It shows that addresses carry traffic, which KWOK cannot show. The control plane is that of
# hack/localcluster.sh. Each of the three nodes is a kubelet, containerd, runc, Multus and the CNI plugins, in its own
# namespaces and cgroup. Nothing comes from a registry. docs/contributing/e2e.md has a picture and explains how to look around.
#
#   test/e2e/e2e.sh tools                     build the binaries into bin/e2e/ from the Go modules below test/e2e/tools
#   test/e2e/e2e.sh up [DIR]                  start a cluster; every node has the images of the controller, the agent and the tests
#   test/e2e/e2e.sh enter DIR NODE [COMMAND]  run a command, or a shell, in a node; in NODE `hub`, kubectl reaches the API server
#   test/e2e/e2e.sh down [DIR]                stop the cluster and remove everything that `up` made
#   test/e2e/e2e.sh lacks kernel|nodes        print the first missing feature that tests of the kernel or of nodes need; fails if none is
#   test/e2e/e2e.sh test [DIR] [FLAGS]        run the tests of test/e2e with these flags of a test binary, on the cluster that
#                                         runs in DIR or on a new one; check that a new one leaves nothing behind
#
# If E2E_OLD is a built checkout of an earlier version, nodes have its images with the tag `old`, and this checkout's with the tag
# `new`. The tests begin with the old version: see test/e2e/move.sh.
#
# DIR defaults to .localcluster/e2e of this checkout. All commands need root on Linux; without it, `test` says so and does
# nothing. The machine's own network is not touched: everything, with the control plane, is in network namespaces.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
bin=$root/bin
nodes=3
# shellcheck source=test/e2e/tools.sh
source "$root/test/e2e/tools.sh"
# shellcheck source=test/e2e/machine.sh
source "$root/test/e2e/machine.sh"

die() {
  echo "e2e: $*" >&2
  exit 1
}

# first NAME prints the id of the first process of the hub or of a node. This process is a script that runs by a path below
# $work, so its command line identifies it; after a reboot, files with ids would point at other programs. Its subshells have
# the same command line, but not the id 1 in its PID namespace.
first() {
  local file arguments
  for file in /proc/[0-9]*/cmdline; do
    mapfile -d '' -t -n 2 arguments 2>/dev/null <"$file" || continue # the process has ended meanwhile
    if [[ ${arguments[1]:-} == "$work/$1/init" ]] && grep -q '^NSpid:.*[[:space:]]1$' "${file%cmdline}status"; then
      basename -- "${file%/cmdline}"
      return 0 # in a trap, a bare return would return the script's exit status
    fi
  done 2>/dev/null
  return 1
}

members() {
  local i
  echo hub
  for ((i = 1; i <= nodes; i++)); do echo "node$i"; done
}

running() {
  local name
  [[ -s $dir/kubeconfig ]] || return 1
  for name in $(members); do first "$name" >/dev/null || return 1; done
}

# enter NAME COMMAND... runs a command in the hub or in a node.
enter() {
  local name=$1 id
  shift
  id=$(first "$name") || die "$name of $dir is not running"
  if [[ $name == hub ]]; then
    KUBECONFIG=$dir/kubeconfig KUBECACHEDIR=$work/cache PATH=$bin:$PATH nsenter --target "$id" --net -- "$@"
  else
    PATH=/opt/pod2:/usr/sbin:/usr/bin:/sbin:/bin nsenter --target "$id" --mount --net --pid --ipc --uts -- "$@"
  fi
}

k() {
  enter hub "$bin/kubectl" "$@"
}

# await GOAL COMMAND... repeats the command until it succeeds.
await() {
  local what=$1 until=$((SECONDS + 60))
  shift
  until "$@" &>/dev/null; do
    ((SECONDS < until)) || die "waited 60 s for $what"
    sleep 0.1
  done
}

# start NAME ARGUMENTS... starts the hub or a node. It runs the script in this directory, by a path that identifies it.
start() {
  local name=$1 script=$root/test/e2e/node.sh
  shift
  [[ $name != hub ]] || script=$root/test/e2e/hub.sh
  local namespaces=(--net --pid --fork)
  [[ $name == hub ]] || namespaces+=(--mount --ipc --uts)
  mkdir -p -- "$work/$name"
  ln -s -- "$script" "$work/$name/init"
  # It runs in a session of its own, so it outlives this terminal, and an interrupt of this script does not stop it.
  setsid unshare "${namespaces[@]}" -- bash "$work/$name/init" "$@" </dev/null &>"$work/$name/init.log" &
  await "$name to start" first "$name"
}

start_nodes() {
  local i name
  for ((i = 1; i <= nodes; i++)); do
    name=node$i
    make_cgroup "$cgroup/$name"
    mkdir -p -- "$work/$name"/{kubelet,containerd,log,kubernetes,cni}
    start "$name" "$name" "$i" "/$cgroup/$name" "$bin/e2e"
    enter hub "$bin/e2e/nodenet" veth "$name" fabric eth0 "$(first "$name")"
  done
}

# credentials NAME NUMBER writes the node's credentials for the API server. The kubelet starts once the last file exists.
credentials() {
  local name=$1 number=$2 pki=$dir/control-plane/clusters/pod2/pki at=$work/$1/kubernetes
  "$bin/e2e/nodecert" -ca "$pki" -out "$at" -name "$name" -address "172.18.0.1$number"
  cp -- "$pki/ca.crt" "$at/"
  mkdir -p -- "$work/$name/cni/multus.d"
  kubeconfig "token: $(<"$work/multus.token")" >"$work/$name/cni/multus.d/multus.kubeconfig"
  multus "$number" >"$work/$name/cni/00-multus.conf"
  kubeconfig 'client-certificate: /etc/kubernetes/client.crt, client-key: /etc/kubernetes/client.key' >"$at/kubeconfig.new"
  mv -- "$at/kubeconfig.new" "$at/kubeconfig"
}

# kubeconfig USER prints a kubeconfig for a node.
kubeconfig() {
  cat <<YAML
apiVersion: v1
kind: Config
clusters:
- name: e2e
  cluster: {server: "https://10.96.0.1:443", certificate-authority: /etc/kubernetes/ca.crt}
users:
- name: e2e
  user: {$1}
contexts:
- name: e2e
  context: {cluster: e2e, user: e2e}
current-context: e2e
YAML
}

# multus NUMBER prints the node's CNI configuration: Multus, and the network of every pod's eth0.
multus() {
  cat <<JSON
{
  "cniVersion": "1.0.0",
  "name": "multus-cni-network",
  "type": "multus",
  "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
  "namespaceIsolation": true,
  "logFile": "/var/log/multus.log",
  "logLevel": "verbose",
  "delegates": [{
    "cniVersion": "1.0.0",
    "name": "default",
    "plugins": [{
      "type": "ptp",
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    }]
  }]
}
JSON
}

# images writes one file with the images of the release and of the tests.
images() {
  # pause also gets its name in the registry, for manifests that need a container without work.
  local list=("pause:e2e=$bin/e2e/pause,65535:65535" "registry.k8s.io/pause:3.10=$bin/e2e/pause,65535:65535"
    "netprobe:e2e=$bin/e2e/netprobe")
  if [[ -n ${E2E_OLD:-} ]]; then
    local agent=$E2E_OLD/bin/pod2-agent
    [[ ! -e $E2E_OLD/bin/pod2-cni ]] || agent+=+$E2E_OLD/bin/pod2-cni
    list+=("pod2-controller:old=$E2E_OLD/bin/pod2-controller,65532:65532" "pod2-agent:old=$agent"
      "pod2-controller:new=$bin/pod2-controller,65532:65532" "pod2-agent:new=$bin/pod2-agent+$bin/pod2-cni")
  fi
  cp -r -- "$bin/dist/images" "$work/images"
  "$bin/release" image "$work/images" "${list[@]}"
  tar --create --file="$work/images.tar" --directory="$work/images" .
}

# import NAME imports the images once containerd of the node answers.
import() {
  await "containerd of $1" enter "$1" ctr version
  enter "$1" ctr --namespace k8s.io images import --local - <"$work/images.tar"
}

multus_account() {
  k apply -f "$root/test/e2e/multus.yaml" -f "$bin/e2e/networks-crd.yaml" >/dev/null
  k create token multus --namespace=kube-system --duration=48h >"$work/multus.token"
}

up() {
  local name i reason began=$SECONDS
  if running; then
    echo "The cluster in $dir is already running."
    return
  fi
  ! lacks_nodes || exit 1
  if reason=$(unbuilt); then die "$reason"; fi
  down # removes the rest of an earlier `up` after a crash, a reboot or a kill
  trap abandon EXIT
  trap 'exit 130' INT TERM
  mkdir -p -- "$work"
  start hub "$nodes" "$bin" "$dir/kubeconfig"
  await "the hub" test -e "$work/hub/ready"
  start_nodes
  images
  for name in $(members); do
    [[ $name == hub ]] || { import "$name" &>"$work/$name/import.log" & }
  done
  KUBELETS=1 enter hub "$root/hack/localcluster.sh" up "$dir" >"$work/control-plane.log"
  multus_account
  for ((i = 1; i <= nodes; i++)); do credentials "node$i" "$i"; done
  for name in $(members); do
    [[ $name == hub ]] || await "$name to register" k get node "$name"
  done
  k wait node --all --for=condition=Ready --timeout=60s >/dev/null
  # No registry has these images, so wait until they are imported.
  for name in $(members); do
    [[ $name == hub ]] || await "the images of $name" imported "$name"
  done
  trap - EXIT INT TERM
  echo "The cluster is up after $((SECONDS - began)) s: $nodes nodes, each with the images of bin/dist, pause:e2e and netprobe:e2e."
  printf 'Pod2 is not installed yet: follow docs/contributing/e2e.md#by-hand. To look around:\n\n  %s enter %s hub kubectl get nodes\n\n' "test/e2e/e2e.sh" "$dir"
}

imported() {
  enter "$1" ctr --namespace k8s.io images list --quiet | grep -qx docker.io/library/netprobe:e2e
}

abandon() {
  local status=$? name
  trap '' INT TERM
  {
    echo "e2e: cannot start the cluster in $dir; the last lines of its logs:"
    tail -n 5 -- "$work"/*.log "$work"/*/*.log "$work"/*/log/*.log
  } >&2 || true
  down
  exit "$status"
}

# down kills the first process of each PID namespace; the kernel then kills the others. It waits until they are gone. Mounts,
# interfaces, routes and firewall rules were all in namespaces, so none is left. It removes directories and cgroups.
down() {
  local name id ids=() attempt
  for name in $(members); do
    if id=$(first "$name"); then ids+=("$id"); fi
  done
  ((${#ids[@]} == 0)) || kill -KILL "${ids[@]}" 2>/dev/null || true
  "$root/hack/localcluster.sh" down "$dir"
  for id in "${ids[@]}"; do
    for attempt in {1..301}; do
      [[ -d /proc/$id ]] || break
      ((attempt <= 300)) || die "process $id of $work did not end within 30 s"
      sleep 0.1
    done
  done
  remove_cgroup
  rm -rf -- "$work"
  [[ ! -d $dir ]] || rmdir --ignore-fail-on-non-empty -- "$dir"
  # Remove the parent directory too, unless it holds another cluster of this checkout.
  [[ ! -d $root/.localcluster ]] || rmdir --ignore-fail-on-non-empty -- "$root/.localcluster"
}

run_tests() {
  local reason
  if ! running && reason=$(lacks_nodes); then
    echo "End-to-end tests: $reason: skipped"
    return
  fi
  make --no-print-directory -C "$root" cluster-tools e2e-tools build local-release bin/helm bin/promtool
  (cd "$root/test/e2e" && CGO_ENABLED=0 go test -c -tags="e2e${E2E_OLD:+,old}" -o "$bin/e2e/e2e.test" .)
  if running; then
    test_binary "$@"
    return
  fi
  down # removes the rest of a crashed run, which this run must not report
  before=$(traces)
  trap leave EXIT
  trap 'exit 130' INT TERM
  "$root/test/e2e/e2e.sh" up "$dir" # in its own process, because it has other traps
  test_binary "$@"
}

# leave removes the cluster, even after a failure, and checks that nothing is left.
leave() {
  local status=$? after
  trap '' INT TERM
  down
  after=$(traces)
  if [[ $before == "$after" ]]; then
    echo "Nothing is left: no process, namespace, mount, cgroup, interface, route or file, and all sysctls are unchanged."
  else
    echo "The cluster left or changed something on this machine:"
    diff <(echo "$before") <(echo "$after") || true
    status=1
  fi
  exit "$status"
}

test_binary() {
  # Tests mostly wait, so more of them run at once than there are cores.
  (cd "$root/test/e2e" && E2E_DIR=$dir enter hub "$bin/e2e/e2e.test" -test.v -test.timeout=20m -test.parallel=4 "$@")
}

command=${1:-}
case $command in
tools)
  tools
  exit
  ;;
up | down | enter | test) ;;
lacks)
  cgroup=pod2-e2e-lacks
  case ${2:-} in
  kernel | nodes)
    "lacks_$2"
    exit
    ;;
  esac
  die "usage: test/e2e/e2e.sh lacks kernel|nodes"
  ;;
*) die "usage: test/e2e/e2e.sh tools | lacks kernel|nodes | up [DIR] | down [DIR] | enter DIR NODE [COMMAND...] | test [DIR] [FLAGS...]" ;;
esac
shift
dir=$root/.localcluster/e2e
if [[ -n ${1:-} && $1 != -* ]]; then
  dir=$(realpath -m -- "$1")
  shift
fi
work=$dir/e2e
cgroup=pod2-e2e-$(printf %s "$dir" | cksum | cut -d ' ' -f 1)
case $command in
up) up ;;
down) down ;;
enter)
  name=${1:?which node? hub, node1, node2 or node3}
  shift
  if (($# == 0)); then set -- "${SHELL:-bash}"; fi
  enter "$name" "$@"
  ;;
test) run_tests "$@" ;;
esac
