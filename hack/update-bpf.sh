#!/usr/bin/env bash
# Compiles the programs of the data plane and writes them as text to pkg/agent/bpf/pod2.hex and sockets.hex.
# So `go build` needs no C compiler. It uses Debian's clang 14; another version may write other
# code for the same source. As root on Debian, it installs clang and the headers.
#
#   hack/update-bpf.sh          writes the files
#   hack/update-bpf.sh --check  fails if one is stale; compares nothing on other systems than Debian 12, as their
#                               headers differ
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../pkg/agent/bpf"

if [[ ${1:-} == --check ]] && ! grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release; then
  echo "pkg/agent/bpf/pod2.hex and sockets.hex are compared on Debian 12 only: skipped"
  exit
fi
if ! command -v clang-14 >/dev/null || ! command -v llvm-objcopy-14 >/dev/null || [[ ! -e /usr/include/bpf/bpf_helpers.h ]]; then
  if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "hack/update-bpf.sh needs clang-14, llvm-14 and libbpf-dev: install them (on Debian 12: apt-get install clang-14 llvm-14 libbpf-dev) and try again" >&2
    exit 1
  fi
  echo "Installing clang with apt-get ..."
  timeout 2m apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 10m apt-get install -qq -y --no-install-recommends clang-14 llvm-14 libbpf-dev linux-libc-dev >/dev/null
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
# compile NAME from src/NAME.c, with -g, because the types of the maps are part of the object. Its strings name the source
# file, so the path is relative. Instruction set v2, because with the 32-bit registers of v3 clang compares halves of packet
# pointers, which the kernel refuses.
compile() {
  clang-14 -O2 -g -fdebug-compilation-dir=. -Wall -Wextra -Werror -target bpf -mcpu=v2 -isystem "/usr/include/$(uname -m)-linux-gnu" -c "src/$1.c" -o "$made/$1.o"
  llvm-objcopy-14 --strip-debug "${@:2}" "$made/$1.o"
  od -An -v -tx1 "$made/$1.o" | tr -d ' \n' | fold -w 120 >"$made/$1.hex"
  echo >>"$made/$1.hex"
}
compile pod2 --remove-section=.BTF.ext --remove-section=.rel.BTF.ext
compile sockets # .BTF.ext names the fields of the kernel's structures
for name in pod2 sockets; do
  if [[ ${1:-} != --check ]]; then
    mv "$made/$name.hex" "$name.hex"
  elif ! cmp "$made/$name.hex" "$name.hex"; then
    echo "hack/update-bpf.sh: pkg/agent/bpf/$name.hex is stale: run make generate and commit the result" >&2
    exit 1
  fi
done
