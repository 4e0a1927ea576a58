#!/usr/bin/env bash
# Runs every fuzz target for so long, 10s by default: hack/fuzz.sh 1m. What a target finds is written to testdata/fuzz
# of its package, and is a test of `make unit` from then on: commit it with what mends it.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

time=${1:-10s}
found=0
while read -r package directory; do
  grep -qs '^func Fuzz' -- "$directory"/*_test.go || continue
  while read -r target; do
    found=$((found + 1))
    go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=10x "$package" | awk -v name="$package $target" '
      { all = all $0 "\n"; if (/execs:/) last = $0 }
      END { sub(/^fuzz: elapsed: [^,]*, /, "", last); print name ": " last; if (all !~ /\nPASS\n/) printf "%s", all }'
  done < <(go test -list='^Fuzz' "$package" | grep '^Fuzz')
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
((found)) || { echo "There is no fuzz target: the pattern must be wrong." >&2; exit 1; }
