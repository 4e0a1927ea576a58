#!/usr/bin/env bash
# Runs the tests of `make kernel-test` on Debian's cloud kernels in QEMU, and prints one line for each kernel and package:
#
#   test/e2e/kernels.sh 6.1 6.12 6.1/arm64
#   test/e2e/kernels.sh --bench 6.1 6.12    # measures one stream of Networks instead
#   PACKAGES="pkg/agent/veth pkg/agent/node" test/e2e/kernels.sh 6.12
#
# It needs root on Debian 12, and installs QEMU, cpio and kmod. The kernels and busybox are Debian packages, unpacked into
# .kernels and not installed. APT reads its lists into .kernels too, so this machine does not get another architecture. The
# emulated machine has no disk and no network: the tests, busybox and the modules are in its initramfs. QEMU emulates the
# processor, so a kernel takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/.kernels
bench=
if [[ ${1:-} == --bench ]]; then bench=1; shift; fi

if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
  echo "make kernel-matrix and make bench-kernels need root on Debian, for its packages of kernels and QEMU: skipped"
  exit
fi
if ! type qemu-system-x86_64 qemu-system-aarch64 cpio depmod &>/dev/null; then
  timeout 2m apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 10m apt-get install -qq -y --no-install-recommends qemu-system-x86 qemu-system-arm cpio kmod >/dev/null
fi

# The modules that the agent needs, and a bridge and destination NAT for the tests. modprobe finds those that they need.
modules="veth vxlan sch_ingress cls_bpf nft_ct nft_masq nft_fib_inet nft_chain_nat nf_conntrack_netlink bridge nft_nat"
read -r -a packages <<<"${PACKAGES:-pkg/agent/bpf pkg/agent/cni pkg/agent/veth pkg/agent/kernel pkg/agent/node cmd/pod2-agent cmd/pod2-cni}"
flags='-test.v -test.count=1 -test.timeout=30m'
# To measure, time is the number of instructions: with one processor and -icount, the load of this machine does not change
# the figures.
if [[ $bench ]]; then
  packages=(pkg/agent/bpf)
  flags='-test.run none -test.bench Fallback -test.benchtime 9x'
fi

# apt ARCH COMMAND... runs a command of APT with its own lists for that architecture.
apt() {
  local arch=$1
  shift
  APT_CONFIG=$work/$arch/apt/conf "$@"
}

# lists ARCH gets these lists.
lists() {
  mkdir -p "$work/$1"/apt/{state/lists,cache/archives}/partial
  cat >"$work/$1/apt/conf" <<CONF
APT::Architecture "$1";
APT::Architectures { "$1"; };
Dir::State "$work/$1/apt/state";
Dir::State::status "/dev/null";
Dir::Cache "$work/$1/apt/cache";
CONF
  apt "$1" timeout 2m apt-get update -qq
}

# unpack ARCH PACKAGE into a directory of its own, and print the directory.
unpack() {
  local dir=$work/$1/$2
  if [[ ! -d $dir ]]; then
    (cd "$work/$1" && apt "$1" apt-get download -qq "$2" 2>/dev/null)
    dpkg -x "$work/$1/${2}"_*.deb "$dir.part"
    mv "$dir.part" "$dir"
  fi
  echo "$dir"
}

# newest package of a kernel, such as 6.1
newest() {
  apt "$1" apt-cache search --names-only "^linux-image-${2//./\\.}\.[0-9.]+.*cloud-$1$" | cut -d' ' -f1 | sort -V | tail -n 1
}

# build the tests of an architecture.
build() {
  local package
  rm -rf "$work/$1/tests"
  for package in "${packages[@]}"; do
    CGO_ENABLED=0 GOARCH=$1 go test -c -ldflags "-s -w" -tags=kernel -o "$work/$1/tests/$package" "./$package"
  done
}

# initramfs ARCH KERNEL FILE writes it.
initramfs() {
  local root release
  root=$(mktemp -d)
  release=$(basename "$2"/lib/modules/*)
  chmod 755 "$root" # other users than root have files too
  mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,modules}
  cp "$(unpack "$1" busybox-static)/bin/busybox" "$root/bin/"
  cp -r "$work/$1/tests" "$root/"
  git ls-files -z pkg/agent cmd/pod2-agent cmd/pod2-cni artifacts docs/reference | cpio -0 -pdm --quiet "$root" # tests read files
  find "$2/lib/modules" -name '*.ko.xz' -exec xz -d {} +
  depmod -b "$2" "$release"
  # Lines such as "insmod FILE PARAMETERS", each after those that it needs.
  for module in $modules; do modprobe -d "$2" -S "$release" --show-depends "$module"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
      cp "$file" "$root/modules/"
      echo "/bin/busybox insmod /modules/${file##*/}"
    done >"$root/insmod"
  cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
. /insmod
ip link set lo up
for package in ${packages[*]}; do
  cd /\$package
  /tests/\$package $flags
  echo "exit status \$? of \$package after \$(cut -d. -f1 /proc/uptime) s"
done
poweroff -f
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$3"
  rm -rf "$root"
}

# emulate ARCH KERNEL INITRAMFS, with one processor: while one changes code of the kernel, QEMU may let another one run half of it. Not
# KVM: in a virtual machine it may be there and still stop at an instruction.
emulate() {
  local machine=(qemu-system-x86_64 -cpu max) console=ttyS0 time=()
  [[ $1 == amd64 ]] || machine=(qemu-system-aarch64 -M virt -cpu "max,pauth-impdef=on") console=ttyAMA0
  if [[ $bench ]]; then
    machine+=(-cpu "max,erms=off,fsrm=off") # with them, a copy would be an instruction for each byte
    time=(-icount "shift=0,sleep=off")
  fi
  timeout 40m "${machine[@]}" -accel tcg "${time[@]}" -smp 1 -m 2048 -nographic -no-reboot -nic none -kernel "$2"/boot/vmlinuz-* \
    -initrd "$3" -append "console=$console panic=-1 quiet" </dev/null 2>&1 || true
}

# report LOG LINUX prints a line for each package that ended, and fails unless all tests passed.
report() {
  awk -v linux="$2" '/^--- PASS/ { passed++ } /^--- SKIP/ { skipped++ } /^exit status/ {
    printf "%s: %s: %s, %d tests passed, %d skipped, in %d s\n", linux, $5, $3 == "0" ? "ok" : "FAILED", passed, skipped, $7 - began
    passed = skipped = 0; began = $7 }' "$1"
  (($(grep -a -c '^exit status 0' "$1") == ${#packages[@]})) && return
  echo "$2: failed; the log is $1:"
  grep -a -E -B 5 -A 3 -- '--- FAIL|panic|BUG|Oops' "$1" || tail -n 30 "$1"
  return 1
}

failed=0
declare -A ready titles logs
for name in "$@"; do
  version=${name%/*} arch=amd64
  [[ $name != */* ]] || arch=${name#*/}
  if [[ -z ${ready[$arch]:-} ]]; then
    lists "$arch"
    build "$arch"
    ready[$arch]=1
  fi
  package=$(newest "$arch" "$version")
  [[ -n $package ]] || { echo "kernels.sh: Debian has no cloud kernel $version for $arch" >&2; exit 1; }
  kernel=$(unpack "$arch" "$package")
  titles[$name]="Linux ${package#linux-image-}"
  logs[$name]=$work/$version-$arch.log
  initramfs "$arch" "$kernel" "$work/$version-$arch.initramfs"
  emulate "$arch" "$kernel" "$work/$version-$arch.initramfs" >"${logs[$name]}" &
  [[ -z $bench ]] || wait "$!"
done
wait
for name in "$@"; do
  log=${logs[$name]} linux=${titles[$name]}
  sed -i 's/\r$//' "$log"
  report "$log" "$linux" || failed=1
  [[ $bench ]] || continue
  echo "$linux, one stream by the wire, median and quartiles of 9 rounds:"
  # BenchmarkFallback 9 0.97 IPv4 0.91 IPv4-q1 ...
  awk '/^BenchmarkFallback/ { for (i = 3; i < NF; i += 2) at[$(i + 1)] = $i
    for (path in at) if (path !~ /-q[13]$/) printf "  %-16s %.2f (%.2f-%.2f)\n", path, at[path], at[path "-q1"], at[path "-q3"] }' "$log" | sort
done
exit "$failed"
