#!/usr/bin/env bash
# Measures everything in docs/performance.md, and writes that page and its plots anew. On an idle machine with two cores, this takes
# 20 to 35 minutes, and about two hours with --full (estimated). --quick takes some minutes and writes nothing; it is for
# changes of test/bench itself. All other arguments are flags of test/bench/controller. The programs of other projects come from
# make bench-peers.
# --block-sizes writes docs/performance/block-sizes.md, from three controllers with AddressBlocks of different sizes.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
module=test/bench

if [[ ${1:-} == --quick ]]; then
  go run -C "$module" ./controller --root="$PWD" --out="$out" "$@"
  exit
fi
if [[ ${1:-} == --block-sizes ]]; then
  cat >"$out/rows" <<'EOF'
# The size of an AddressBlock

<!-- Written by test/bench/bench.sh --block-sizes, which overwrites manual changes. -->

A Pod2 on one Network, as in [performance.md](../performance.md). The controllers differ only in the size of an AddressBlock. Each
runs on its own cluster. The figures are medians of three rounds. Writes are requests of the controller, divided by the number of pods.

| addresses in an AddressBlock | pods | all Ready, s | all gone, s | PUT for each pod created | writes for each pod created | for each deleted | CPU until Ready, s |
|---|---|---|---|---|---|---|---|
EOF
  grep -q '^const blockBits = 8$' pkg/ipam/block.go
  grep -q 'maxItems: 256$' crd/samplecrd.k8s.io_addressblocks.yaml
  for bits in 6 8 10; do
    git ls-files -z | xargs -0 cp --parents -t "$out"
    cp -r bin "$out"
    sed -i "s/^const blockBits = .*/const blockBits = $bits/" "$out/pkg/ipam/block.go"
    sed -i "s/maxItems: 256/maxItems: $((1 << bits))/" "$out/crd/samplecrd.k8s.io_addressblocks.yaml"
    (cd "$out" && CGO_ENABLED=0 go build -trimpath -o bin/pod2-controller .)
    go run -C "$module" ./controller --root="$out" --only='^Pod2 on one Network$' --sizes=500,2000 --large= --addresses=0 --variant=$((1 << bits)) --rows="$out/rows"
  done
  mkdir -p docs/performance
  cp "$out/rows" docs/performance/block-sizes.md
  tail -n 5 "$out/rows"
  exit
fi
count=3
if [[ ${1:-} == --full ]]; then
  count=6
  set -- --sizes=500,2000 --addresses=1000 "$@"
fi
begin=$(date +%s)
go test -run='^$' -bench=. -benchtime=0.2s -count="$count" ./pkg/network ./pkg/pod2 ./pkg/reconcile >"$out/benchmarks" ||
  { grep -v '^Benchmark' "$out/benchmarks" >&2; exit 1; }
go build -C "$module" -o "$out/benchstat" golang.org/x/perf/cmd/benchstat
# The cost of a decision, relative to the same decision with ten. A mean over different decisions would be meaningless.
for size in bound replicas; do
  (cd -- "$out" && ./benchstat -ignore=pkg -col="/$size" -filter="/$size:/./" benchmarks | grep -v '^geomean')
done >"$out/table"
go run -C "$module" ./controller --root="$PWD" --out="$PWD/docs" --begin="$begin" --benchmarks="$out/benchmarks" --benchmark-tables="$out/table" "$@"
