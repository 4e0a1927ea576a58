#!/usr/bin/env bash
# A local control plane: the real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, with KWOK in the
# place of nodes and kubelets, on free ports of 127.0.0.1. Any number of them run at a time, each in its directory.
#
#   hack/localcluster.sh tools        build the binaries into bin/ from the Go modules that hack/localcluster/go.mod names,
#                                     and CoreDNS, which tests ask for names, from those of hack/coredns
#   hack/localcluster.sh up [DIR]     start one and wait until it takes pods; DIR/kubeconfig exists once it does
#   hack/localcluster.sh down [DIR]   stop it and remove what `up` made
#
# DIR is .localcluster of this checkout unless given. `up` reads:
#   NODES=4             KWOK nodes; each takes 110 pods
#   QPS_UNLIMITED=1     no client-side limits in the components, and no priority and fairness in the API server: for
#                       benchmarks. Otherwise the controllers of kube-controller-manager write about 20 pods a second.
#   AUDIT_LOG=FILE      the API server appends its audit log there (JSON lines; `down` leaves the file alone)
#   KUBELETS=1          real kubelets join it, and no KWOK runs: for a network namespace of its own, since the API
#                       server listens on port 443 of every address there, and is known by each of them
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
module=$root/hack/localcluster
bin=$root/bin

die() {
  echo "localcluster: $*" >&2
  exit 1
}

kube_version() {
  awk '$1 == "k8s.io/kubernetes" { print $2 }' "$module/go.mod"
}

tools() {
  local version major minor ticker
  version=$(kube_version)
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "Building Kubernetes $version, etcd, KWOK and CoreDNS into $bin from Go modules:"
  echo "about seven minutes and 490 MB the first time, seconds from Go's build cache later."
  (while sleep 20 &>/dev/null; do echo "  still building, $SECONDS s so far"; done) &
  ticker=$!
  # shellcheck disable=SC2064 # the id of now
  trap "kill $ticker" EXIT
  # Binaries that do not know their version call themselves v0.0.0, which kubectl and kwokctl cannot work with.
  local set="-X k8s.io/component-base/version.git"
  cd -- "$module"
  CGO_ENABLED=0 go build -o "$bin/" -trimpath \
    -ldflags "-s -w ${set}Version=$version ${set}Major=$major ${set}Minor=$minor" tool ||
    die "building the tools of $module failed, see above; the first build downloads modules and so needs GOPROXY"
  cd -- "$root/hack/coredns"
  CGO_ENABLED=0 go build -o "$bin/" -trimpath -ldflags "-s -w" . ||
    die "building CoreDNS in $root/hack/coredns failed, see above; the first build downloads modules and so needs GOPROXY"
  echo "Built in $SECONDS s."
}

# processes prints the ids of all that `up` started for this directory. kwokctl and the components are run by paths
# below $work, so a command line tells whose it is. Files with process ids would not do: after a reboot they name
# strangers, and an `up` that was killed has not written them all.
processes() {
  local file command
  for file in /proc/[0-9]*/cmdline; do
    { IFS= read -r -d '' command <"$file"; } 2>/dev/null || continue # a process that has ended meanwhile
    if [[ $command == "$work"/* ]]; then
      basename -- "${file%/cmdline}"
    fi
  done
}

# alive succeeds if all components run. Each of them takes its port first and exits if it cannot.
alive() {
  local components=5
  [[ ! -e $work/without-kwok ]] || components=4
  (($(processes | wc -l) == components))
}

running() {
  [[ -s $dir/kubeconfig ]] && alive &&
    "$bin/kubectl" --kubeconfig="$dir/kubeconfig" --request-timeout=5s get --raw=/readyz &>/dev/null
}

# down kills: there is nothing to save. It looks again until nothing is left, since a kwokctl whose `up` was killed may
# be starting components this moment.
down() {
  local ids attempt
  for attempt in {1..101}; do
    mapfile -t ids < <(processes)
    ((${#ids[@]})) || break
    ((attempt <= 100)) || die "stopping the processes ${ids[*]} of $work: still there after 10 s; end them and try again"
    kill -KILL "${ids[@]}" 2>/dev/null || true
    sleep 0.1
  done
  rm -rf -- "$work" "$dir/kubeconfig"
  # A directory with something else in it, say a test's own files, is not ours to remove.
  [[ ! -d $dir ]] || rmdir --ignore-fail-on-non-empty -- "$dir"
}

abandon() {
  local status=$?
  trap '' INT TERM
  if ((status == 130)); then
    echo "localcluster: interrupted" >&2
  else
    echo "localcluster: starting the control plane in $dir failed; the last lines of its logs:" >&2
    tail -n 5 -- "$work/kwokctl.log" "$cluster"/logs/*.log >&2 || true
  fi
  down
}

up() {
  local use="export KUBECONFIG=$dir/kubeconfig PATH=$bin:\$PATH"
  if running; then
    local stop="make cluster-down"
    [[ $dir == "$root/.localcluster" ]] || stop="hack/localcluster.sh down $dir"
    echo "The local cluster in $dir is already running; \`$stop\` first to start it anew. To use it:"
    printf '\n  %s\n\n' "$use"
    return
  fi
  [[ -x $bin/kwokctl && -x $bin/kubectl ]] || die "there is no kwokctl or kubectl in $bin: run \`make -B cluster-tools\`"
  local nodes=${NODES:-4} options=() audit
  [[ $nodes =~ ^[0-9]+$ ]] || die "NODES=$nodes: want a number, 0 or more"
  down # what a crash, a reboot or a killed `up` has left
  trap abandon EXIT
  trap 'exit 130' INT TERM # kwokctl survives an interrupt, and without this so would `up`
  umask 077
  mkdir -p -- "$work"
  # By this path `processes` finds it.
  ln -s -- "$bin/kwokctl" "$work/kwokctl"

  if [[ ${QPS_UNLIMITED:-} == 1 ]]; then
    options+=(--disable-qps-limits)
  else
    # The default, 30, makes the creation of the controllers' service accounts alone take four seconds. The rate stays at
    # 20 a second.
    options+=(--extra-args=kube-controller-manager=kube-api-burst=100)
  fi
  if [[ -n ${AUDIT_LOG:-} ]]; then
    audit=$(realpath -m -- "$AUDIT_LOG")
    # The last value of a flag counts, and kwokctl's own comes before. Size in MB: one file, so that nothing rotates away.
    options+=(--kube-audit-policy="$module/audit-policy.yaml" --extra-args="kube-apiserver=audit-log-path=$audit"
      --extra-args=kube-apiserver=audit-log-maxsize=4096)
  fi
  if [[ ${KUBELETS:-} == 1 ]]; then
    # kwokctl puts the addresses of the machine, which is the network namespace, into its certificate. Kubelets know the
    # API server by that, and let it in since its group is system:masters. Admission plugins add to those of kwokctl.yaml.
    # It is to be found where a cluster's API server is, by the endpoints of its Service.
    options+=(--kube-apiserver-port=443 --extra-args=kube-apiserver=bind-address=0.0.0.0
      --extra-args=kube-apiserver=advertise-address=10.96.0.1 --extra-args=kube-apiserver=endpoint-reconciler-type=lease
      --extra-args=kube-apiserver=kubelet-preferred-address-types=InternalIP
      --extra-args="kube-apiserver=kubelet-certificate-authority=$cluster/pki/ca.crt"
      --extra-args="kube-apiserver=kubelet-client-certificate=$cluster/pki/admin.crt"
      --extra-args="kube-apiserver=kubelet-client-key=$cluster/pki/admin.key"
      --extra-args=kube-apiserver=enable-admission-plugins=NodeRestriction
      --disable=kwok-controller) # it would speak for their nodes
    : >"$work/without-kwok"
    nodes=0
  fi
  # kwokctl prefers a kubectl from the PATH to the one it is told of, and downloads what it has not been given;
  # without --kubeconfig= it writes to that of the user.
  export PATH="$bin:$PATH" KUBECACHEDIR="$work/cache" KWOK_WORKDIR="$work" KWOK_KUBE_VERSION
  KWOK_KUBE_VERSION=$(kube_version)
  "$work/kwokctl" create cluster --name=pod2 --kubeconfig= --timeout=2m --wait=1m \
    --config="$module/kwokctl.yaml" --config="$module/stages/nodes.yaml" --config="$module/stages/pods.yaml" \
    --config="$module/stages/volumes.yaml" \
    --etcd-binary="$bin/server" --kube-apiserver-binary="$bin/kube-apiserver" \
    --kube-controller-manager-binary="$bin/kube-controller-manager" --kube-scheduler-binary="$bin/kube-scheduler" \
    --kwok-controller-binary="$bin/kwok" "${options[@]}" &>"$work/kwokctl.log"
  if ((nodes > 0)); then
    # Networks keep off what Nodes use. KWOK's own choice, 10.0.0.0/24 and so on, is what Networks of tests and examples have.
    "$work/kwokctl" scale node --name=pod2 --replicas="$nodes" --param='.podCIDRs = ["100.96.0.0/24", "fd96::/64"]' \
      --param='.nodeIPs = ["100.95.0.1", "fd95::1"]' &>>"$work/kwokctl.log"
    "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" wait node --all --for=condition=Ready --timeout=60s >/dev/null
  fi
  if [[ ! -e $work/without-kwok ]]; then # which makes the volumes
    "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" create --filename="$module/storage-class.yaml" >/dev/null
  fi
  # A pod that is created before its namespace has this account is refused.
  "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" wait serviceaccount/default --namespace=default \
    --for=create --timeout=60s >/dev/null
  alive || die "a component has exited"
  # With the certificates inside, and only now and in one step: who sees the file can use the cluster.
  "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" config view --raw --flatten >"$work/kubeconfig"
  mv -- "$work/kubeconfig" "$dir/kubeconfig"
  trap - EXIT INT TERM
  echo "The local cluster is up after $SECONDS s, with $nodes nodes. To use it:"
  printf '\n  %s\n\n' "$use"
}

case ${1:-} in
tools) tools ;;
up | down)
  [[ -r /proc/self/cmdline && -n $(command -v flock) ]] || die "this needs Linux: it uses /proc and flock"
  dir=$(realpath -m -- "${2:-$root/.localcluster}")
  # kwokctl would take what comes before the space for its directory.
  [[ $dir != *[[:space:]]* ]] || die "cannot use the directory \"$dir\": its path has a space in it; give another DIR"
  work=$dir/control-plane
  cluster=$work/clusters/pod2
  # One start or stop at a time on this machine: a port that kwokctl found free is taken only seconds later, and two
  # clusters that start together would find the same ones. The lock ends with this process, as its children do not
  # inherit it; it is on a directory that every user can open, so that there is no file to leave behind.
  exec 9</tmp
  if ! flock --nonblock 9; then
    echo "Waiting for another local cluster of this machine to start or stop ..."
    flock --timeout 300 9 || die "another local cluster has been starting or stopping for 5 minutes: see \`fuser -v /tmp\`"
  fi
  "$1" 9<&-
  ;;
*) die "usage: hack/localcluster.sh tools | up [DIR] | down [DIR]" ;;
esac
