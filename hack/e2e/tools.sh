# Part of hack/e2e.sh, which sources it: what the nodes run, built into bin/e2e/.
# shellcheck shell=bash disable=SC2154 # root, bin and die are those of hack/e2e.sh

# debian gets the packages that are needed and not installed, without installing them: libseccomp's headers, with which
# runc is built, and nft, which the plugin `bridge` runs for macspoofchk.
debian() {
  local into=$bin/e2e/debian archives file
  if [[ -d $into ]] || { command -v nft >/dev/null && [[ -e /usr/include/seccomp.h ]]; }; then
    return
  fi
  command -v apt-get >/dev/null || die "this needs nft and the static libseccomp with its headers: install both"
  archives=$(mktemp -d)
  mkdir -p -- "$archives/partial"
  get() {
    apt-get --option=Dir::Cache::archives="$archives" --download-only --yes --no-install-recommends --quiet=2 \
      install nftables libseccomp-dev >/dev/null
  }
  get 2>/dev/null || { apt-get --quiet=2 update && get; } || die "getting nftables and libseccomp-dev from Debian failed, see above"
  rm -rf -- "$into.new"
  mkdir -p -- "$into.new"
  for file in "$archives"/*.deb; do dpkg --extract "$file" "$into.new"; done
  rm -rf -- "$archives"
  mv -- "$into.new" "$into"
  [[ -e $into/usr/sbin/nft ]] || return 0
  # Its libraries are beside it.
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec /opt/pod2/debian/usr/sbin/nft "$@"\n' \
    "$(cd -- "$into" && dirname -- "$(find usr -name 'libnftables.so.*' | head -n 1)" | sed 's:^:/opt/pod2/debian/:')" >"$bin/e2e/nft"
  chmod +x "$bin/e2e/nft"
}

# static_runc builds runc with seccomp, without which containerd starts no pod. The C compiler finds libseccomp by a
# pkg-config of ours, since the real one may not be there, and knows only what is installed.
static_runc() {
  local include=/usr/include library
  [[ -e $include/seccomp.h ]] || include=$bin/e2e/debian/usr/include
  library=$(find "${include%/include}/lib" -name libseccomp.a | head -n 1)
  [[ -n $library ]] || die "there is no libseccomp.a beside $include/seccomp.h"
  cat >"$bin/e2e/pkg-config" <<SH
#!/bin/sh
case \$1 in
--cflags) echo "-I$include" ;;
--libs) echo "-L$(dirname -- "$library") -lseccomp" ;;
esac
SH
  chmod +x "$bin/e2e/pkg-config"
  PKG_CONFIG=$bin/e2e/pkg-config CGO_ENABLED=1 go build -C "$root/hack/e2e/tools/runc" -o "$bin/e2e/" -trimpath \
    -tags 'seccomp netgo osusergo' -ldflags '-s -w -extldflags -static' tool
  rm -- "$bin/e2e/pkg-config"
}

tools() {
  local version major minor ticker set="-X k8s.io/component-base/version.git"
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$root/hack/localcluster/go.mod")
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "Building the kubelet $version, containerd, runc, Multus and CNI plugins into $bin/e2e from Go modules:"
  echo "about ten minutes the first time, seconds from Go's build cache later."
  (while sleep 20 &>/dev/null; do echo "  still building, $SECONDS s so far"; done) &
  ticker=$!
  # shellcheck disable=SC2064 # the id of now
  trap "kill $ticker" EXIT
  mkdir -p -- "$bin/e2e/cni"
  debian
  static_runc
  export CGO_ENABLED=0
  go build -C "$root/hack/e2e/tools/cni" -trimpath -o "$bin/e2e/cni/" -ldflags '-s -w' tool
  go build -C "$root/hack/e2e/tools/containerd" -trimpath -o "$bin/e2e/" -ldflags '-s -w' -tags 'no_btrfs no_devmapper no_zfs' tool
  go build -C "$root/hack/localcluster" -trimpath -o "$bin/e2e/" \
    -ldflags "-s -w ${set}Version=$version ${set}Major=$major ${set}Minor=$minor" ./kubelet
  go build -C "$root" -trimpath -o "$bin/e2e/" -ldflags '-s -w' ./hack/e2e/...
  # The kind NetworkAttachmentDefinition.
  cp -- "$(go list -C "$root/hack/e2e/tools/cni" -m -f '{{.Dir}}' \
    github.com/k8snetworkplumbingwg/network-attachment-definition-client)/artifacts/networks-crd.yaml" "$bin/e2e/"
  chmod u+w "$bin/e2e/networks-crd.yaml"
  echo "Built in $SECONDS s."
}
