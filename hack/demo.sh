#!/usr/bin/env bash
# The demo: a local cluster, the controller and the examples. It deletes one pod, and then all pods of a node, and shows
# that every replica comes back with its name and its addresses.
#
#   hack/demo.sh up     run the demo; if it ran before, run it anew; exits with 0 only if every replica kept both
#   hack/demo.sh down   stop and remove everything that `up` left running
#
# `make demo` first builds the programs that this needs. The demo writes only below .localcluster/demo of this checkout. The
# cluster of `make cluster-up`, in the same directory, is another one and stays unchanged.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
dir=$root/.localcluster/demo
log=$dir/controller.log
pidfile=$dir/controller.pid
patience=120 # seconds for each wait; the longest takes about three on an idle machine
cd -- "$root"

k() {
  "$root/bin/kubectl" --kubeconfig="$dir/kubeconfig" --cache-dir="$dir/control-plane/cache" "$@"
}

step() {
  printf '\n=== %s\n' "$*"
}

# show prints a kubectl command as a user types it, and runs it.
show() {
  printf '$ kubectl %s\n' "$*"
  k "$@"
}

reason='a command failed, see its output above'
fail() {
  reason=$*
  exit 1
}

finish() {
  # shellcheck disable=SC2016 # the variables belong to the Go template
  local status=$? conditions='{{range .items}}{{$object := .}}{{range .status.conditions}}{{if ne .status "True"}}'
  # shellcheck disable=SC2016
  conditions+='{{$object.kind}} {{$object.metadata.name}}: {{.type}} is {{.status}}: {{.reason}}: {{.message}}{{"\n"}}{{end}}{{end}}{{end}}'
  trap - EXIT INT TERM
  ((status)) || return 0
  if ((status == 130)); then
    printf '\nInterrupted. The processes of the demo are still running; make demo-down removes them.\n' >&2
    exit "$status"
  fi
  {
    printf '\nThe demo failed after %d s: %s\n' "$SECONDS" "$reason"
    if [[ -s $dir/kubeconfig ]]; then
      printf '\nObjects in the cluster:\n'
      k get networks,addressblocks,pod2s,crontabs,statefulsets,jobs,pods --output=wide
      printf '\nConditions that are not True, and the last events:\n'
      k get networks,pod2s,crontabs,pods --output=go-template="$conditions"
      k get events --sort-by=.metadata.creationTimestamp | tail -n 15
    fi
    if [[ -s $log ]]; then
      printf '\nThe last lines of %s:\n' "$log"
      tail -n 30 -- "$log"
    fi
    printf '\nThe cluster is left running so that you can look around: export KUBECONFIG=%s\nmake demo-down removes it.\n' "$dir/kubeconfig"
  } >&2 || true
  exit "$status"
}

# controller prints the process id of the controller that `up` started, if it runs. After a reboot, the id in the file may
# belong to another program.
controller() {
  local id argument
  { read -r id <"$pidfile"; } 2>/dev/null || return 1
  while IFS= read -r -d '' argument; do
    if [[ $argument == "--kubeconfig=$dir/kubeconfig" ]]; then
      echo "$id"
      return
    fi
  done 2>/dev/null <"/proc/$id/cmdline"
  return 1
}

# await GOAL COMMAND... repeats the command until it succeeds. If it never does, its last output is the reason.
await() {
  local what=$1 said until=$((SECONDS + patience))
  shift
  until said=$("$@" 2>&1); do
    if [[ -e $pidfile ]] && ! controller >/dev/null; then
      fail "the controller exited during the wait for $what"
    fi
    ((SECONDS < until)) || fail "waited $patience s for $what: $said"
    sleep 0.2
  done
}

in_force() {
  k create --dry-run=server --output=jsonpath='{.spec.schedulingGates[*].name}' --filename=- <<'YAML' | grep -Fx samplecrd.k8s.io/addresses
apiVersion: v1
kind: Pod
metadata: {name: probe, annotations: {samplecrd.k8s.io/networks: blue}}
spec: {containers: [{name: probe, image: registry.k8s.io/pause:3.10}]}
YAML
}

# forge lets a user with the role `edit` give a pod the address of another pod, and prints the refusal. It fails if the
# API server accepts.
forge() {
  local said
  said=$(k annotate pod web-1 --overwrite --as=alice samplecrd.k8s.io/addresses='{"blue":{"address":"192.168.0.99/16"}}' 2>&1) && return 1
  printf '%s\n' "$said" | grep pod2-pods
}

# pods prints one line per pod: name, kind of its owner, node, phase, uid, address on blue, address on green. "-" is none.
pods() {
  local fields='{.metadata.name}{"\t"}{.metadata.ownerReferences[0].kind}{"\t"}{.spec.nodeName}{"\t"}{.status.phase}{"\t"}{.metadata.uid}'
  fields+='{"\t"}{.metadata.annotations.samplecrd\.k8s\.io/addresses}{"\n"}'
  k get pods --selector=samplecrd.k8s.io/managed=true --output=jsonpath="{range .items[*]}$fields{end}" | awk -F '\t' '
    function address(network,   key, at, rest) {
      key = "\"" network "\":{\"address\":\""
      if (!(at = index($6, key))) return "-"
      rest = substr($6, at + length(key))
      return substr(rest, 1, index(rest, "/") - 1)
    }
    { print $1, $2, ($3 == "" ? "-" : $3), $4, $5, address("blue"), address("green") }' | sort -V
}

# counted succeeds once the status of each Network counts the addresses that the pods below it have.
counted() {
  local all
  all=$(pods | awk '$4 != "Succeeded" { blue += $6 != "-"; green += $7 != "-" } END { print blue + 0, green + 0 }')
  [[ $(k get networks blue green --output=jsonpath='{.items[0].status.bound} {.items[1].status.bound}') == "$all" ]]
}

# replicas are the pods whose owner keeps stable names. Pods of a Job have no successors.
replicas() {
  pods | awk '$2 == "Pod2" || $2 == "StatefulSet"'
}

table() {
  pods | awk '
    BEGIN { row = "%-14s %-12s %-12s %-14s %-11s %s\n"; printf row, "NAME", "OWNER", "NODE", "BLUE", "GREEN", "STATUS" }
    { printf row, $1, $2, $3, $6, $7, $4 ($4 == "Succeeded" ? ": addresses rest" : "") }'
}

# recovered succeeds once every pod of the file exists and is Ready, and the Pod2 is Ready.
recovered() {
  local names
  mapfile -t names < <(awk '{ print "pod/" $1 }' "$1")
  k wait --for=condition=Ready --timeout=5s pod2/web "${names[@]}"
}

# compare BEFORE AFTER prints the pods that were replaced. It fails if a replica has disappeared or appeared, changed an
# address, has no address, or has an address of another. It also fails if no pod was replaced, because then it tested nothing.
compare() {
  awk '
    BEGIN { row = "%-7s %-24s %-24s %-26s %s\n"; printf row, "NAME", "ADDRESSES BEFORE", "ADDRESSES AFTER", "NODE", "UID" }
    NR == FNR { addresses[$1] = $6 " " $7; node[$1] = $3; uid[$1] = $5; next }
    $6 == "-" { print $1, "has no address on blue"; bad = 1 }
    $6 != "-" && held["blue", $6]++ { print $6, "on blue is also the address of", $1; bad = 1 }
    $7 != "-" && held["green", $7]++ { print $7, "on green is also the address of", $1; bad = 1 }
    !($1 in uid) { print $1, "did not exist before"; bad = 1; next }
    {
      if (addresses[$1] != $6 " " $7) bad = 1
      if (uid[$1] != $5) {
        replaced++
        printf row, $1, addresses[$1], $6 " " $7, node[$1] " -> " $3, substr(uid[$1], 1, 8) " -> " substr($5, 1, 8)
      } else if (addresses[$1] != $6 " " $7) {
        print $1, "was not deleted, and has", $6, $7, "instead of", addresses[$1]
      }
      delete uid[$1]
    }
    END {
      for (name in uid) { print name, "did not come back"; bad = 1 }
      if (!replaced) print "no replica was deleted"
      exit bad || !replaced
    }' "$1" "$2"
}

# survive COMMAND... runs a kubectl command that deletes pods, and compares the replicas before and after it.
survive() {
  local before=$dir/before after=$dir/after
  replicas >"$before"
  show "$@"
  await "every replica to be Ready again" recovered "$before"
  replicas >"$after"
  echo
  compare "$before" "$after" || fail "after kubectl $*, some replicas lost their name or their addresses, see the lines above"
}

up() {
  local node total
  trap finish EXIT
  trap 'exit 130' INT TERM
  if [[ -e $dir ]]; then
    step "Removing an earlier demo"
    down
  fi
  step "Starting a local cluster: kube-apiserver, etcd, controller-manager, scheduler, and KWOK instead of nodes"
  NODES=${NODES:-4} hack/localcluster.sh up "$dir"

  step "Installing the CRDs of Network, AddressBlock, AddressSlice, AddressHistory, VNI, Pod2, CronTab and Sidecar, the user roles, and the policies: any pod may ask for addresses, and no user may forge them"
  show apply -f crd/ -f artifacts/20-user-roles.yaml -f artifacts/30-admission-policy.yaml -f artifacts/31-validation-policies.yaml -f artifacts/32-warnings.yaml -f artifacts/33-sidecars.yaml
  await "the CRDs" k wait --for=condition=Established --timeout=60s -f crd/ # it fails if a CRD has no conditions yet
  await "the admission policy to be in force" in_force
  # Until a policy finds the CRD of its paramKind, the API server refuses the objects that the policy matches.
  await "the API server to accept the examples" k create --dry-run=server --filename=example/

  step "Starting the controller. Its log is $log"
  # It runs in a session of its own, so it outlives this terminal, and an interrupt of this script does not stop it.
  setsid bin/pod2-controller --kubeconfig="$dir/kubeconfig" --metrics-bind-address=127.0.0.1:0 \
    --health-probe-bind-address=127.0.0.1:0 </dev/null &>"$log" &
  echo "$!" >"$pidfile"

  step "Creating the examples: two Networks, a Pod2, a CronTab, a StatefulSet and a Job that ask for addresses with an annotation, and a Sidecar with a Deployment"
  show create -f example/
  await "the Networks to be Ready" k wait --for=condition=Ready --timeout=5s networks --all
  await "the Pod2 to be Ready" k wait --for=condition=Ready --timeout=5s pod2/web
  await "the CronTab to be Ready" k wait --for=condition=Ready --timeout=5s crontab/my-new-cron-object
  await "the StatefulSet to be Ready" k rollout status --timeout=5s statefulset/db
  await "the Job to complete" k wait --for=condition=Complete --timeout=5s job/report

  step "Scaling the Pod2 like any workload"
  show scale pod2 web --replicas=12
  await "the Pod2 to be Ready" k wait --for=condition=Ready --timeout=5s pod2/web

  await "the Networks to report that nothing attaches pods here" k wait --for=condition=Attachable=false --timeout=5s networks --all
  await "the Networks to count every address" counted
  step "The Networks, the Pod2 and the CronTab are Ready: each pod has its addresses"
  show get networks --output=wide
  printf '\nATTACHABLE is False because this cluster has no data plane: KWOK runs no containers, and Multus and pod2-agent are not\n'
  printf 'installed. So no packets flow. docs/how-to/install.md says how to install them on real nodes.\n\n'
  show get pod2s
  echo
  show get crontabs
  printf '\nThe pods and their addresses:\n'
  table

  step "Forging an address: user alice may edit all pods of the namespace, but not their addresses"
  k create rolebinding alice --clusterrole=edit --user=alice >/dev/null
  # shellcheck disable=SC2016
  printf '$ kubectl annotate pod web-1 --overwrite --as=alice samplecrd.k8s.io/addresses=...\n'
  await "the API server to refuse the forgery" forge
  forge

  step "Deleting a pod: a new pod gets its name and its addresses"
  survive delete pod web-1

  node=$(replicas | awk '{ print $3 }' | sort | uniq -c | sort -k1,1nr -k2 | awk 'NR == 1 { print $2 }')
  step "Draining $node, the node with the most replicas: they come back on other nodes"
  survive drain "$node"
  k uncordon "$node" >/dev/null

  total=$(replicas | wc -l)
  step "Passed after $SECONDS s: all $total replicas have the same names and addresses as before the deletions"
  cat <<EOF
The cluster and the controller are still running. To look around:

  export KUBECONFIG=$dir/kubeconfig PATH=$root/bin:\$PATH
  kubectl get networks,pod2s,crontabs,pods
  kubectl explain pod2.spec
  kubectl pod2 dashboard              # all of it in the browser, live; make demo DASHBOARD=1 opens it at once
  tail -f $log

make demo-down stops and removes both. The programs stay in bin/.
EOF
  if [[ ${DASHBOARD:-} == 1 ]]; then
    printf '\n'
    "$root/bin/kubectl-pod2" --kubeconfig="$dir/kubeconfig" dashboard
  fi
}

# down works in every case: after a demo that succeeded, failed or was killed, and without one.
down() {
  local id attempt
  if id=$(controller); then
    kill -TERM "$id" 2>/dev/null || true
    for attempt in {1..300}; do
      controller >/dev/null || break
      ((attempt < 300)) || kill -KILL "$id" 2>/dev/null || true
      sleep 0.1
    done
  fi
  rm -f -- "$pidfile" "$log" "$dir/before" "$dir/after"
  hack/localcluster.sh down "$dir"
  # Remove the parent directory too, unless it holds the cluster of `make cluster-up`.
  [[ ! -d $root/.localcluster ]] || rmdir --ignore-fail-on-non-empty -- "$root/.localcluster"
}

case ${1:-} in
up) up ;;
down)
  down
  echo "Removed the demo's controller and cluster."
  ;;
*)
  echo "usage: hack/demo.sh up | down" >&2
  exit 2
  ;;
esac
