#!/usr/bin/env bash
# Runs the integration tests on versions of Kubernetes, and prints a table of the results for docs/reference/compatibility.md.
#
#   hack/test-versions.sh [1.33 ...]    all versions of hack/localcluster by default; logs are in bin/VERSION.log
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cd -- "$root"
versions=("$@")
if ((!$#)); then
  mapfile -t versions < <(sed --quiet 's|.*k8s.io/kubernetes v\([0-9]*\.[0-9]*\).*|\1|p' hack/localcluster/1.*/go.mod hack/localcluster/go.mod)
fi
make --no-print-directory build apiserver local-release bin/helm bin/promtool >&2
failed=0
rows=()
for version in "${versions[@]}"; do
  make --no-print-directory cluster-tools K8S="$version" >&2
  log=bin/$version.log
  echo "Kubernetes $version: see $log" >&2
  K8S=$version go test -tags=integration -count=1 -timeout=40m -parallel=8 -v ./test/integration >"$log" 2>&1 || failed=1
  count() { grep -c "^--- $1:" "$log" || true; }
  patch=$(K8S=$version hack/localcluster.sh version)
  rows+=("| $patch | $(count PASS) | $(count SKIP) | $(count FAIL) |")
done
printf '| Kubernetes | Tests that passed | Tests of kinds that it does not serve | Tests that failed |\n|---|---|---|---|\n'
printf '%s\n' "${rows[@]}"
exit "$failed"
