#!/usr/bin/env bash
# Tests the move from an old version to this one, and back, on three kubelets. It builds the old version from the history of
# this repository, installs it, and runs one of the tests with the tag `old`. Without that commit it fails.
#
#   test/e2e/move.sh bridges [FLAGS]    from the last version whose data plane had bridges
#   test/e2e/move.sh previous [FLAGS]   from the previous version, which TestUpgrade names too
#
# FLAGS are those of a test binary.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
case ${1:-} in
bridges)
  commit=d6fa32102115b1b27777bd8d1591b9a5a0b3e1a8
  programs=(pod2-agent)
  test=TestMoveFromBridges
  ;;
previous)
  commit=$(sed --quiet 's/^const previous = "\(.*\)"$/\1/p' "$root/test/integration/upgrade_test.go")
  programs=(pod2-agent pod2-cni)
  test=TestUpgradeLosesNoPacket
  ;;
*)
  echo "usage: test/e2e/move.sh bridges|previous [FLAGS...]" >&2
  exit 2
  ;;
esac
from=$1
shift

if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "e2e: commit $commit, the version to move from, is not in the history of $root: run git fetch --unshallow" >&2
  exit 1
fi
old=$(mktemp --directory --tmpdir pod2-old.XXXXXX)
trap 'rm -rf -- "$old"' EXIT
trap 'exit 130' INT TERM
git -C "$root" archive "$commit" | tar --extract --directory="$old"
echo "Building the old version ..."
CGO_ENABLED=0 go build -C "$old" -trimpath -o bin/pod2-controller .
for program in "${programs[@]}"; do
  CGO_ENABLED=0 go build -C "$old" -trimpath -o "bin/$program" "./cmd/$program"
done
E2E_OLD=$old "$root/test/e2e/e2e.sh" test "$root/.localcluster/e2e-$from" -test.run="^$test\$" "$@"
