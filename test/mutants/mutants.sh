#!/usr/bin/env bash
# Tests the tests: plants each fault of test/mutants/*.patch in a copy of the tree and
# prints the harnesses that find it. Fails if no harness finds a fault, or if a harness
# fails without a fault.
#
#   test/mutants/mutants.sh                  all faults, all harnesses
#   test/mutants/mutants.sh late-create ...  these faults
#   HARNESSES=model test/mutants/mutants.sh  one harness
#   test/mutants/mutants.sh --check          runs no harness: fails if a patch no longer applies or compiles
#
# The first line of a patch describes its fault. Patches touch only product code.
set -euo pipefail
cd "$(dirname "$0")/../.."

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
product=(. ./pkg/fenced ./pkg/network ./pkg/network/history ./pkg/plan ./pkg/pod2 ./pkg/crontab ./pkg/reconcile ./pkg/agent/dataplane)

# Patches of different files are compiled together, over the tree: most packages then come
# from Go's cache.
if [[ ${1:-} == --check ]]; then
	rest=(test/mutants/*.patch)
	while ((${#rest[@]})); do
		rm -rf "${tree:?}"/*
		together=() later=() replaced=
		for file in "${rest[@]}"; do
			mapfile -t touched < <(sed -n 's|^--- a/||p' "$file")
			if (cd "$tree" && for path in "${touched[@]}"; do [[ ! -e $path ]] || exit 0; done; exit 1); then
				later+=("$file")
				continue
			fi
			cp --parents -t "$tree" "${touched[@]}"
			git -C "$tree" apply "$PWD/$file" || { echo "test/mutants/mutants.sh: $file no longer applies: plant its fault anew" >&2; exit 1; }
			together+=("$file")
			for path in "${touched[@]}"; do replaced+=",\"$PWD/$path\":\"$tree/$path\""; done
		done
		echo "{\"Replace\":{${replaced#,}}}" >"$tree/overlay.json"
		go list -export -overlay "$tree/overlay.json" "${product[@]}" >/dev/null || { echo "test/mutants/mutants.sh: one of ${together[*]} does not compile" >&2; exit 1; }
		rest=("${later[@]}")
	done
	exit
fi

# Each line is "name: command". A harness finds a fault if its command fails. The unit tests
# of packages that do not depend on the fault pass from Go's cache.
harnesses="
model: go test -timeout=0 -count=1 -failfast -run ^TestModel ./pkg/reconcile
crash: go test -timeout=0 -count=1 -failfast -run '^Test(CrashAtEveryWrite|FrozenWatches|RestartOnAnOlderView|HeldWrites|LeaderIsCutOff|TwoActive|Faults)' .
unit: POD2_LONG=1 go test -timeout=0 -failfast -skip ^TestModel ./pkg/fenced ./pkg/network ./pkg/network/history ./pkg/plan ./pkg/pod2 ./pkg/crontab ./pkg/reconcile ./pkg/agent/dataplane
"

git ls-files -z --cached --others --exclude-standard -- '*.go' '*/testdata/*' go.mod go.sum | xargs -0 cp --parents -t "$tree"

names=() commands=()
while IFS=: read -r name command; do
	[[ -z $name || -n ${HARNESSES:-} && " $HARNESSES " != *" $name "* ]] && continue
	names+=("$name") commands+=("$command")
done <<<"$harnesses"

# A timeout does not count as finding the fault: the machine may be too slow. It ends the run.
run() {
	local status=0
	(cd "$tree" && timeout "${TIMEOUT:-20m}" bash -c "$1") >"$tree/log" 2>&1 || status=$?
	if ((status == 124)); then
		echo "test/mutants/mutants.sh: did not finish within ${TIMEOUT:-20m}: $1" >&2
		exit 1
	fi
	return "$status"
}

printf '%-34s' fault
printf '%-8s' "${names[@]}"
echo
for i in "${!names[@]}"; do
	if ! run "${commands[i]}"; then
		cat "$tree/log"
		echo "test/mutants/mutants.sh: ${names[i]} fails without a fault: fix that first" >&2
		exit 1
	fi
done

missed=0
patches=()
for name in "$@"; do patches+=("test/mutants/$name.patch"); done
for patch in "${patches[@]:-test/mutants/*.patch}"; do
	for file in $patch; do
		git -C "$tree" apply "$PWD/$file"
		(cd "$tree" && go vet "${product[@]}") # a fault must compile
		printf '%-34s' "$(basename "$file" .patch)"
		found=
		for i in "${!names[@]}"; do
			if run "${commands[i]}"; then
				printf '%-8s' -
			else
				printf '%-8s' found
				found=1
			fi
		done
		echo
		[[ -n $found ]] || missed=$((missed + 1))
		git -C "$tree" apply -R "$PWD/$file"
	done
done
if ((missed)); then
	echo "test/mutants/mutants.sh: no harness finds $missed of the faults" >&2
	exit 1
fi
