#!/usr/bin/env bash
# Fails if a generated file differs from the output of hack/update-codegen.sh, update-reference.sh or update-charts.sh. Works on a
# copy, so the checkout never changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --exclude=./.git --exclude=./bin --exclude=./.localcluster -cf - . | tar -xf - -C "$copy"
(cd "$copy" && hack/update-codegen.sh && hack/update-reference.sh && hack/update-charts.sh)
hack/update-bpf.sh --check
rm -rf "${copy:?}/bin"

stale=0
for part in pkg/apis pkg/client crd cmd/pod2-apiserver/{apis,openapi} artifacts/dashboard charts docs/reference/{api,view-api,kubectl-pod2,flags,helm-values}.md; do
  diff -ru "$part" "$copy/$part" || stale=1
done
if [ "$stale" = 1 ]; then
  echo "verify-codegen: the files above are stale: run make generate and commit the result" >&2
  exit 1
fi
echo "verify-codegen: all generated files are up to date"
