#!/usr/bin/env bash
# Measures all that docs/performance.md has, and writes that page and its plots anew: half an hour of a machine that
# does nothing else. With --quick, which is for who changes hack/bench: a minute, and nothing is written.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
module=hack/bench

if [[ ${1:-} == --quick ]]; then
  go run -C "$module" . --root="$PWD" --out="$out" --quick
  exit
fi
go test -run='^$' -bench=. -benchtime=0.3s -count=5 ./pkg/network ./pkg/pod2 ./pkg/reconcile >"$out/benchmarks"
go run -C "$module" golang.org/x/perf/cmd/benchstat "$out/benchmarks" >"$out/table"
go run -C "$module" . --root="$PWD" --out="$PWD/docs" --benchmarks="$out/benchmarks" --benchmark-tables="$out/table"
