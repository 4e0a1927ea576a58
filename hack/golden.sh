#!/usr/bin/env bash
# Writes pkg/reconcile/testdata/VERSION.yaml: the objects of a cluster on which this version of Pod2 has been at work. Later
# versions must find nothing to change in it (TestStandingWorlds), so run this once for each release, and never change a file.
#
#   hack/golden.sh v0.1.0
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
file=$root/pkg/reconcile/testdata/${1:?usage: hack/golden.sh VERSION}.yaml
[[ ! -e $file ]] || { echo "golden: $file exists: the files of releases never change" >&2; exit 1; }
dir=$(mktemp -d)
k() { "$root/bin/kubectl" --kubeconfig="$dir/cluster/kubeconfig" "$@"; }
# shellcheck disable=SC2317,SC2329 # the trap calls it
stop() {
  [[ ! -s $dir/pid ]] || kill "$(<"$dir/pid")"
  "$root/hack/localcluster.sh" down "$dir/cluster"
  rm -rf -- "$dir"
}
trap stop EXIT
NODES=1 "$root/hack/localcluster.sh" up "$dir/cluster" >/dev/null
k apply -f "$root/crd" -f "$root/hack/localcluster/network-attachment-definitions.yaml"
until k wait crd --all --for=condition=Established &>/dev/null; do sleep 1; done
k apply -f "$root/artifacts/30-admission-policy.yaml" -f "$root/artifacts/33-sidecars.yaml"
k label namespace default samplecrd.k8s.io/sidecars=enabled
"$root/bin/pod2-controller" --kubeconfig="$dir/cluster/kubeconfig" --metrics-bind-address=0 --health-probe-bind-address=0 &>"$dir/log" &
echo $! >"$dir/pid"

k create -f - <<'YAML'
# blue is an Overlay of IPv4, six one of IPv6, and lan belongs to a CNI plugin.
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: blue}
spec: {cidr: 10.1.0.0/24, reuseDelaySeconds: 86400}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: six}
spec: {cidr: "fd00:1::/64", egress: None}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: lan}
spec:
  cidr: 10.2.0.0/24
  attachment: {type: CNI, config: '{"cniVersion": "1.0.0", "type": "macvlan", "master": "eth1"}'}
---
apiVersion: samplecrd.k8s.io/v1
kind: Sidecar
metadata: {name: log}
spec: {selector: {app: db}, containers: [{name: log, image: registry.k8s.io/pause:3.10}]}
YAML
k wait networks.samplecrd.k8s.io --all --for=condition=Ready
k wait sidecars.samplecrd.k8s.io --all --for=condition=Ready
k create -f - <<'YAML'
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 3
  networks: [{name: blue, addresses: [10.1.0.10]}, {name: six}, {name: lan}]
  updateStrategy: {rollingUpdate: {partition: 1}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.k8s.io/pause:3.10"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {samplecrd.k8s.io/networks: blue}}
    spec: {containers: [{name: db, image: "registry.k8s.io/pause:3.10"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gone, annotations: {samplecrd.k8s.io/networks: blue}}
spec: {containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]}
---
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: yearly}
spec: {cronSpec: "@yearly", image: "busybox:1.37", networks: [{name: lan}]}
YAML
k wait pod2s.samplecrd.k8s.io/web pod/gone --for=condition=Ready --timeout=60s
k rollout status statefulset/db
k patch pod2s.samplecrd.k8s.io web --type=merge -p '{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}'
k wait pod2s.samplecrd.k8s.io/web --for='jsonpath={.status.updatedReplicas}=2' --timeout=60s
k delete pod gone --wait # its address rests
k scale pod2s.samplecrd.k8s.io web --replicas=2 # the addresses of web-2 stay reserved
k wait pod/web-2 --for=delete --timeout=60s
k wait pod2s.samplecrd.k8s.io/web --for=condition=Ready --timeout=60s
sleep 75 # the slowest write is that of the checksum in an AddressHistory: it waits for a minute
mkdir -p -- "${file%/*}"
{
  echo "# $1 was at work on these objects until $(date -u +%Y-%m-%dT%H:%M:%SZ). Written by hack/golden.sh: never change it."
  for kind in nodes servicecidrs storageclasses networks.samplecrd.k8s.io addressblocks addressslices addresshistories vnis sidecars pod2s crontabs.stable.example.com cronjobs \
    controllerrevisions persistentvolumeclaims statefulsets pods services endpointslices network-attachment-definitions; do
    for object in $(k get "$kind" --all-namespaces -o go-template='{{range .items}}{{or .metadata.namespace "-"}}/{{.metadata.name}} {{end}}'); do
      echo "---"
      k get "$kind" --namespace="${object%%/*}" "${object#*/}" -o yaml | sed '/^  selfLink:/d'
    done
  done
} >"$file"
grep -c '^---$' "$file"
