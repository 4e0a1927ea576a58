#!/usr/bin/env bash
# Tests make release. It makes a release of this checkout, and one of a copy in another directory and without a module proxy,
# and compares them byte for byte. Both are for Linux on this machine's architecture and on arm64. The release starts the
# programs; those for arm64 under qemu-user, which this script installs as root on Debian. PLATFORMS chooses others.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
here=linux/$(go env GOARCH)
platforms=${PLATFORMS:-$here,linux/arm64}
[[ $here != linux/arm64 || -n ${PLATFORMS:-} ]] || platforms=$here

if ! command -v qemu-aarch64-static >/dev/null && [[ $here != linux/arm64 ]]; then
  if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "make release-test needs qemu-aarch64-static: install it (on Debian: apt-get install qemu-user-static) and try again" >&2
    exit 1
  fi
  echo "Installing qemu-user-static with apt-get ..."
  timeout 2m apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 5m apt-get install -qq -y --no-install-recommends qemu-user-static >/dev/null
fi

work=$(mktemp --directory)
trap 'rm -rf -- "$work"' EXIT
mkdir -- "$work/copy"
(cd -- "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar --create --files-from=- ) | tar --extract --directory="$work/copy"
go build -C "$root/hack/release" -trimpath -o "$work/release" .
# The first run gets the modules. The second has no proxy to get others from.
make_release() {
  "$work/release" --root="$1" --out="$work/$2" --platforms="$platforms" | tee "$work/$2.log"
  (cd -- "$work/$2" && sha256sum --check --quiet checksums.txt)
}
make_release "$root" first
GOPROXY=off make_release "$work/copy" second
if [[ $platforms == *linux/arm64* ]] && [[ $(grep -c '^Started .* for linux/arm64: ' "$work/first.log") != 5 ]]; then
  echo "make release-test: not all programs for arm64 were started" >&2
  exit 1
fi
diff --recursive --brief "$work/first" "$work/second"
echo "Both releases have the same bytes: $(find "$work/first" -type f | wc -l) files. The images:"
cat -- "$work/first/images.txt"
