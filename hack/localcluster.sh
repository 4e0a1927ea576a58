#!/usr/bin/env bash
# A local control plane: the real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, on free ports of
# 127.0.0.1. KWOK plays the nodes and kubelets. Any number of them can run at once, each in its own directory.
#
#   hack/localcluster.sh tools        build the binaries into bin/ from the Go modules of hack/localcluster/go.mod, and
#                                     CoreDNS, which tests use, from those of hack/coredns
#   hack/localcluster.sh version      print the version of Kubernetes
#   hack/localcluster.sh up [DIR]     start a control plane and wait until it accepts pods; then DIR/kubeconfig exists
#   hack/localcluster.sh down [DIR]   stop it and remove everything that `up` made
#
# With K8S=1.33, `tools` builds the components of that version into bin/1.33 instead, from hack/localcluster/1.33/go.mod, and
# `up` runs them with the other programs of bin/.
#
# DIR defaults to .localcluster of this checkout. `up` reads these variables:
#   NODES=4             KWOK nodes
#   PODS_PER_NODE=110   how many pods a KWOK node takes
#   QPS_UNLIMITED=1     for benchmarks: no client-side limits in the components, and no priority and fairness in the API
#                       server. By default, the controllers of kube-controller-manager write about 20 pods a second.
#   AUDIT_LOG=FILE      the API server appends its audit log to this file (JSON lines; `down` does not remove it)
#   AUDIT_POLICY=FILE   the policy for that log; by default hack/localcluster/audit-policy.yaml
#   KUBELETS=1          for real kubelets, without KWOK. It needs its own network namespace, because the API server
#                       listens on port 443 of all addresses there, and its certificate names each of them
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
module=$root/hack/localcluster
bin=$root/bin

die() {
  echo "localcluster: $*" >&2
  exit 1
}

# The folder below $module and $bin with the components of Kubernetes: none for the version that all tests use.
other=
if [[ -n ${K8S:-} ]] && ! grep -q "k8s.io/kubernetes v$K8S\\." "$module/go.mod"; then
  other=/$K8S
  [[ -f $module$other/go.mod ]] || die "no Kubernetes $K8S in $module: choose one of its folders"
fi

kube_version() {
  sed --quiet 's|.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$module$other/go.mod"
}

tools() {
  local version major minor ticker
  version=$(kube_version)
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "Building Kubernetes $version${other:-", etcd, KWOK and CoreDNS"} into $bin$other from Go modules:"
  echo "about seven minutes and 490 MB the first time, then seconds with Go's build cache."
  (while sleep 20 &>/dev/null; do echo "  still building, $SECONDS s so far"; done) &
  ticker=$!
  # shellcheck disable=SC2064 # expand the id now
  trap "kill $ticker" EXIT
  # Binaries without version information report v0.0.0, and kubectl and kwokctl do not work with that.
  local set="-X k8s.io/component-base/version.git"
  cd -- "$module$other"
  CGO_ENABLED=0 go build -o "$bin$other/" -trimpath \
    -ldflags "-s -w ${set}Version=$version ${set}Major=$major ${set}Minor=$minor" tool ||
    die "cannot build the tools of $module$other, see above; the first build needs GOPROXY to download modules"
  if [[ -z $other ]]; then
    cd -- "$root/hack/coredns"
    CGO_ENABLED=0 go build -o "$bin/" -trimpath -ldflags "-s -w" . ||
      die "cannot build CoreDNS in $root/hack/coredns, see above; the first build needs GOPROXY to download modules"
  fi
  echo "Built in $SECONDS s."
}

# processes prints the ids of all processes that `up` started for this directory. `up` runs kwokctl and the components by
# paths below $work, so their command lines identify them. Files with process ids would not: after a reboot the ids belong
# to other programs, and an `up` that was killed has not written all files.
processes() {
  local file command
  for file in /proc/[0-9]*/cmdline; do
    { IFS= read -r -d '' command <"$file"; } 2>/dev/null || continue # the process has ended meanwhile
    if [[ $command == "$work"/* ]]; then
      basename -- "${file%/cmdline}"
    fi
  done
}

# alive succeeds if all components run. Each one takes its port first, and exits if the port is in use.
alive() {
  local components=5
  [[ ! -e $work/without-kwok ]] || components=4
  (($(processes | wc -l) == components))
}

running() {
  [[ -s $dir/kubeconfig ]] && alive &&
    "$bin/kubectl" --kubeconfig="$dir/kubeconfig" --request-timeout=5s get --raw=/readyz &>/dev/null
}

# down kills, because there is nothing to save. It looks again until no process is left: a kwokctl whose `up` was killed may
# still be starting components.
down() {
  local ids attempt
  for attempt in {1..101}; do
    mapfile -t ids < <(processes)
    ((${#ids[@]})) || break
    ((attempt <= 100)) || die "cannot stop the processes ${ids[*]} of $work within 10 s: end them and try again"
    kill -KILL "${ids[@]}" 2>/dev/null || true
    sleep 0.1
  done
  rm -rf -- "$work" "$dir/kubeconfig"
  # A directory that also holds other files, such as those of a test, must stay.
  [[ ! -d $dir ]] || rmdir --ignore-fail-on-non-empty -- "$dir"
}

abandon() {
  local status=$?
  trap '' INT TERM
  if ((status == 130)); then
    echo "localcluster: interrupted" >&2
  else
    echo "localcluster: cannot start the control plane in $dir; the last lines of its logs:" >&2
    tail -n 5 -- "$work/kwokctl.log" "$cluster"/logs/*.log >&2 || true
  fi
  down
}

up() {
  local use="export KUBECONFIG=$dir/kubeconfig PATH=$bin:\$PATH"
  if running; then
    local stop="make cluster-down"
    [[ $dir == "$root/.localcluster" ]] || stop="hack/localcluster.sh down $dir"
    echo "The local cluster in $dir is already running. To start it anew, first run \`$stop\`. To use it:"
    printf '\n  %s\n\n' "$use"
    return
  fi
  [[ -x $bin/kwokctl && -x $bin/kubectl ]] || die "cannot find kwokctl and kubectl in $bin: run \`make -B cluster-tools\`"
  [[ -x $bin$other/kube-apiserver ]] || die "cannot find kube-apiserver in $bin$other: run \`make cluster-tools K8S=$K8S\`"
  local nodes=${NODES:-4} options=() audit
  [[ $nodes =~ ^[0-9]+$ ]] || die "NODES=$nodes: must be a number, 0 or more"
  down # removes the rest of an earlier `up` after a crash, a reboot or a kill
  trap abandon EXIT
  trap 'exit 130' INT TERM # kwokctl survives an interrupt, and so would `up` without this
  umask 077
  mkdir -p -- "$work"
  # `processes` finds kwokctl by this path.
  ln -s -- "$bin/kwokctl" "$work/kwokctl"

  # The API server passes requests to aggregated API servers with its certificate of kwok-admin, and says which user asks in
  # headers. An aggregated API server accepts the headers from this name only.
  options+=(--extra-args="kube-apiserver=requestheader-client-ca-file=$cluster/pki/ca.crt"
    --extra-args=kube-apiserver=requestheader-allowed-names=kwok-admin)
  if [[ ${QPS_UNLIMITED:-} == 1 ]]; then
    options+=(--disable-qps-limits)
  else
    # With the default, 30, it takes four seconds to create the controllers' service accounts. The rate stays at 20 a second.
    options+=(--extra-args=kube-controller-manager=kube-api-burst=100)
  fi
  if [[ -n ${AUDIT_LOG:-} ]]; then
    audit=$(realpath -m -- "$AUDIT_LOG")
    # The last value of a flag counts; kwokctl's own values come before. The size is in MB. One large file never rotates.
    options+=(--kube-audit-policy="${AUDIT_POLICY:-$module/audit-policy.yaml}" --extra-args="kube-apiserver=audit-log-path=$audit"
      --extra-args=kube-apiserver=audit-log-maxsize=4096)
  fi
  if [[ ${KUBELETS:-} == 1 ]]; then
    # kwokctl puts all addresses of the machine, here the network namespace, into the API server's certificate, which the
    # kubelets check. Kubelets accept the API server because its group is system:masters. The admission plugin adds to those of
    # kwokctl.yaml. The endpoints of the Service kubernetes lead to the API server, as on any cluster.
    local listen=0.0.0.0
    [[ ! -e /proc/net/if_inet6 ]] || listen=::
    options+=(--kube-apiserver-port=443 --extra-args="kube-apiserver=bind-address=$listen"
      --extra-args=kube-apiserver=advertise-address=10.96.0.1 --extra-args=kube-apiserver=endpoint-reconciler-type=lease
      --extra-args=kube-apiserver=kubelet-preferred-address-types=InternalIP
      --extra-args="kube-apiserver=kubelet-certificate-authority=$cluster/pki/ca.crt"
      --extra-args="kube-apiserver=kubelet-client-certificate=$cluster/pki/admin.crt"
      --extra-args="kube-apiserver=kubelet-client-key=$cluster/pki/admin.key"
      --extra-args=kube-apiserver=enable-admission-plugins=NodeRestriction
      --disable=kwok-controller) # KWOK would write the status of the kubelets' nodes
    : >"$work/without-kwok"
    nodes=0
  fi
  # kwokctl prefers a kubectl on the PATH to the given one, and downloads missing programs. Without --kubeconfig= it writes to
  # the user's kubeconfig.
  export PATH="$bin:$PATH" KUBECACHEDIR="$work/cache" KWOK_WORKDIR="$work" KWOK_KUBE_VERSION
  KWOK_KUBE_VERSION=$(kube_version)
  "$work/kwokctl" create cluster --name=pod2 --kubeconfig= --timeout=2m --wait=1m \
    --config="$module/kwokctl.yaml" --config="$module/stages/nodes.yaml" --config="$module/stages/pods.yaml" \
    --config="$module/stages/volumes.yaml" \
    --etcd-binary="$bin/server" --kube-apiserver-binary="$bin$other/kube-apiserver" \
    --kube-controller-manager-binary="$bin$other/kube-controller-manager" --kube-scheduler-binary="$bin$other/kube-scheduler" \
    --kwok-controller-binary="$bin/kwok" "${options[@]}" &>"$work/kwokctl.log"
  if ((nodes > 0)); then
    # Networks must not overlap addresses of Nodes. KWOK's default, 10.0.0.0/24 and so on, is in use by tests and examples.
    "$work/kwokctl" scale node --name=pod2 --replicas="$nodes" --param='.podCIDRs = ["100.96.0.0/24", "fd96::/64"]' \
      --param='.nodeIPs = ["100.95.0.1", "fd95::1"]' --param=".allocatable.pods = ${PODS_PER_NODE:-110}" &>>"$work/kwokctl.log"
    "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" wait node --all --for=condition=Ready --timeout=60s >/dev/null
  fi
  if [[ ! -e $work/without-kwok ]]; then # KWOK makes the volumes
    "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" create --filename="$module/storage-class.yaml" >/dev/null
  fi
  # The API server refuses a pod until its namespace has this account. kube-controller-manager creates it. On a busy machine it
  # exits first, because it waits only ten seconds for a healthy API server. A kubelet would start it again, and so does this.
  local deadline=$((SECONDS + 60))
  until "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" wait serviceaccount/default --namespace=default \
    --for=create --timeout=2s &>>"$work/kwokctl.log"; do
    ((SECONDS < deadline)) || die "the namespace default has no service account"
    alive || "$work/kwokctl" start cluster --name=pod2 &>>"$work/kwokctl.log"
  done
  alive || die "a component has exited"
  # The file holds the certificates, and everyone who can read it can use the cluster. So it appears last, in one step.
  "$bin/kubectl" --kubeconfig="$cluster/kubeconfig.yaml" config view --raw --flatten >"$work/kubeconfig"
  mv -- "$work/kubeconfig" "$dir/kubeconfig"
  trap - EXIT INT TERM
  echo "The local cluster is up after $SECONDS s, with $nodes nodes. To use it:"
  printf '\n  %s\n\n' "$use"
}

case ${1:-} in
tools) tools ;;
version) kube_version ;;
up | down)
  [[ -r /proc/self/cmdline && -n $(command -v flock) ]] || die "this needs Linux: it uses /proc and flock"
  dir=$(realpath -m -- "${2:-$root/.localcluster}")
  # kwokctl would cut the directory at the first space.
  [[ $dir != *[[:space:]]* ]] || die "cannot use the directory \"$dir\": its path has a space; choose another DIR"
  work=$dir/control-plane
  cluster=$work/clusters/pod2
  # Only one cluster can start or stop at a time on this machine. kwokctl takes a free port seconds after it found it, so two
  # clusters that start together would choose the same ports. The lock ends with this process, because its children do not
  # inherit it. It is on a directory that every user can open, so no lock file is left behind.
  exec 9</tmp
  if ! flock --nonblock 9; then
    echo "Waiting for another local cluster on this machine to start or stop ..."
    flock --timeout 300 9 || die "another local cluster has been starting or stopping for 5 minutes: see \`fuser -v /tmp\`"
  fi
  "$1" 9<&-
  ;;
*) die "usage: hack/localcluster.sh tools | version | up [DIR] | down [DIR]" ;;
esac
