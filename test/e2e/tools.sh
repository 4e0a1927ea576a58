# Part of test/e2e/e2e.sh, which sources it: it builds the nodes' programs into bin/e2e/, and lists programs that are not built.
# shellcheck shell=bash disable=SC2154 # root and bin come from test/e2e/e2e.sh

tools() {
  local version major minor ticker set="-X k8s.io/component-base/version.git"
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$root/hack/localcluster/go.mod")
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "Building the kubelet $version, containerd, runc, Multus and CNI plugins into $bin/e2e from Go modules:"
  echo "about ten minutes the first time, then seconds with Go's build cache."
  (while sleep 20 &>/dev/null; do echo "  still building, $SECONDS s so far"; done) &
  ticker=$!
  # shellcheck disable=SC2064 # expand the id now
  trap "kill $ticker" EXIT
  mkdir -p -- "$bin/e2e/cni"
  # runc enters namespaces in C, before Go starts. It has no libseccomp, which no Go module contains: see test/e2e/plainrunc.
  CGO_ENABLED=1 go build -C "$root/test/e2e/tools/runc" -o "$bin/e2e/" -trimpath \
    -tags 'netgo osusergo' -ldflags '-s -w -extldflags -static' tool
  export CGO_ENABLED=0
  go build -C "$root/test/e2e/tools/cni" -trimpath -o "$bin/e2e/cni/" -ldflags '-s -w' tool
  go build -C "$root/test/e2e/tools/containerd" -trimpath -o "$bin/e2e/" -ldflags '-s -w' -tags 'no_btrfs no_devmapper no_zfs' tool
  go build -C "$root/hack/localcluster" -trimpath -o "$bin/e2e/" \
    -ldflags "-s -w ${set}Version=$version ${set}Major=$major ${set}Minor=$minor" ./kubelet
  go build -C "$root" -trimpath -o "$bin/e2e/" -ldflags '-s -w' ./test/e2e/...
  # The CRD of NetworkAttachmentDefinition.
  cp -- "$(go list -C "$root/test/e2e/tools/cni" -m -f '{{.Dir}}' \
    github.com/k8snetworkplumbingwg/network-attachment-definition-client)/artifacts/networks-crd.yaml" "$bin/e2e/"
  chmod u+w "$bin/e2e/networks-crd.yaml"
  echo "Built in $SECONDS s."
}

# unbuilt prints all missing programs of a cluster, and the command that builds them. It fails if none is missing.
unbuilt() {
  local goal file missing=() goals=() list
  while read -r goal file; do
    [[ ! -e $bin/$file ]] || continue
    missing+=("$file")
    [[ " ${goals[*]} " == *" $goal "* ]] || goals+=("$goal")
  done < <(
    printf 'cluster-tools %s\n' kube-apiserver server kube-controller-manager kube-scheduler kubectl kwokctl coredns
    printf 'e2e-tools e2e/%s\n' kubelet containerd containerd-shim-runc-v2 ctr runc plainrunc netprobe nodecert nodenet pause \
      networks-crd.yaml cni/{multus,bridge,static,ptp,host-local,loopback,macvlan}
    printf 'build %s\n' pod2-controller pod2-agent pod2-cni
    printf 'local-release %s\n' release dist/install-dataplane.yaml
  )
  ((${#missing[@]})) || return
  printf -v list '%s, ' "${missing[@]}"
  # -B is needed because make compares the ages of stamps, not the programs.
  echo "${list%, } missing in $bin: run \`make -B ${goals[*]}\`"
}
