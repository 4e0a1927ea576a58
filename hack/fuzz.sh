#!/usr/bin/env bash
# Runs every fuzz target for a given time, 10s by default: hack/fuzz.sh 1m. If a target finds a failing input, it writes
# the input to testdata/fuzz of its package. From then on `make unit` tests it: commit the input together with the fix.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

time=${1:-10s}
targets=0 failed=0
while read -r package directory; do
  grep -qs '^func Fuzz' -- "$directory"/*_test.go || continue
  while read -r target; do
    targets=$((targets + 1))
    status=0
    said=$(go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=10x "$package" 2>&1) || status=$?
    echo "$package $target: $(grep -o 'execs: .*' <<<"$said" | tail -n 1)"
    # If the time ends in the middle of an input, Go sometimes reports an error: golang.org/issue/48591.
    if ((status)) && { grep -q 'Failing input' <<<"$said" || ! grep -qx ' *context deadline exceeded' <<<"$said"; }; then
      printf '%s\n' "$said"
      failed=1
    fi
  done < <(go test -list='^Fuzz' "$package" | grep '^Fuzz')
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
((targets)) || { echo "fuzz: found no fuzz target: the search pattern must be wrong" >&2; exit 1; }
exit "$failed"
