#!/usr/bin/env bash
# Tests the move from the data plane with bridges to the eBPF programs, and the way back, on three kubelets. It builds the
# last version with bridges from the history of this repository, installs it, and runs the tests with the tag `bridges`.
# Without that commit it fails. Flags are those of a test binary.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
commit=d6fa32102115b1b27777bd8d1591b9a5a0b3e1a8

if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "e2e: commit $commit, the last version with bridges, is not in the history of $root: run git fetch --unshallow" >&2
  exit 1
fi
old=$(mktemp --directory --tmpdir pod2-bridges.XXXXXX)
trap 'rm -rf -- "$old"' EXIT
trap 'exit 130' INT TERM
git -C "$root" archive "$commit" | tar --extract --directory="$old"
echo "Building the version with bridges ..."
CGO_ENABLED=0 go build -C "$old" -trimpath -o bin/pod2-controller .
CGO_ENABLED=0 go build -C "$old" -trimpath -o bin/pod2-agent ./cmd/pod2-agent
E2E_BRIDGES=$old "$root/test/e2e/e2e.sh" test "$root/.localcluster/e2e-move" -test.run='^TestMoveFromBridges$' "$@"
