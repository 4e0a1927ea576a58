#!/usr/bin/env bash
# Runs the tests of pkg/agent/bpf on Debian's cloud kernels in QEMU, and prints one line for each kernel:
#
#   test/e2e/kernels.sh 6.1 6.12
#   test/e2e/kernels.sh --bench 6.1 6.12    # measures one stream of Networks instead
#
# It needs root on Debian 12, and installs QEMU and cpio. The kernels and busybox are Debian packages, unpacked into
# .kernels and not installed. The machine has no disk and no network: the tests, busybox and the modules are in its
# initramfs. QEMU emulates the processor, so a kernel takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/.kernels
bench=
if [[ ${1:-} == --bench ]]; then bench=1; shift; fi

if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
  echo "make kernel-matrix and make bench-kernels need root on Debian, for its packages of kernels and QEMU: skipped"
  exit
fi
mkdir -p "$work"
timeout 2m apt-get update -qq
command -v qemu-system-x86_64 >/dev/null && command -v cpio >/dev/null ||
  DEBIAN_FRONTEND=noninteractive timeout 10m apt-get install -qq -y --no-install-recommends qemu-system-x86 cpio >/dev/null

# unpack PACKAGE into a directory of its own, and print the directory.
unpack() {
  local dir=$work/$1
  if [[ ! -d $dir ]]; then
    (cd "$work" && apt-get download -qq "$1" 2>/dev/null)
    dpkg -x "$work/${1}"_*.deb "$dir.part"
    mv "$dir.part" "$dir"
  fi
  echo "$dir"
}

# newest package of a kernel, such as 6.1
newest() {
  apt-cache search --names-only "^linux-image-${1//./\\.}\.[0-9.]+.*cloud-amd64$" | cut -d' ' -f1 | sort -V | tail -n 1
}

# The command that the machine runs. To measure, time is the number of instructions: with one processor and -icount, the
# load of this machine does not change the figures.
run='/bpf.test -test.v -test.count=1'
cpu=max time=(-smp 2)
if [[ $bench ]]; then
  run='/bpf.test -test.run XXX -test.bench Fallback -test.benchtime 9x'
  cpu=max,erms=off,fsrm=off # with them, a copy would be an instruction for each byte
  time=(-smp 1 -icount "shift=0,sleep=off")
fi

busybox=$(unpack busybox-static)/bin/busybox
CGO_ENABLED=0 go test -c -tags=kernel -o "$work/bpf.test" ./pkg/agent/bpf
failed=0
for version in "$@"; do
  package=$(newest "$version")
  [[ -n $package ]] || { echo "kernels.sh: Debian has no cloud kernel $version" >&2; exit 1; }
  kernel=$(unpack "$package")
  root=$(mktemp -d)
  mkdir -p "$root"/{bin,proc,sys,dev,tmp,modules,pkg/agent/bpf/src}
  cp "$busybox" "$root/bin/busybox"
  cp "$work/bpf.test" "$root/"
  cp pkg/agent/bpf/src/layout.h "$root/pkg/agent/bpf/src/"
  for module in veth udp_tunnel ip6_udp_tunnel vxlan sch_ingress cls_bpf; do # each after those that it needs
    find "$kernel/lib/modules" -name "$module.ko*" -exec cp {} "$root/modules/" \;
    ! compgen -G "$root/modules/$module.ko.xz" >/dev/null || xz -d "$root/modules/$module.ko.xz"
  done
  printf '#!/bin/busybox sh\n%s\n' "$run" >"$root/run"
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs tmp /tmp
for module in veth udp_tunnel ip6_udp_tunnel vxlan sch_ingress cls_bpf; do
  [ ! -e /modules/$module.ko ] || busybox insmod /modules/$module.ko
done
busybox ip link set lo up
cd /pkg/agent/bpf
/run
echo "exit status $?"
busybox poweroff -f
INIT
  chmod +x "$root/init" "$root/run"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs"
  # Not KVM: in a virtual machine it may be there and still stop at an instruction.
  timeout 10m qemu-system-x86_64 -accel tcg -cpu "$cpu" "${time[@]}" -m 2048 -nographic -no-reboot -nic none \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/initramfs" -append "console=ttyS0 panic=-1 quiet" </dev/null >"$work/$version.log" 2>&1 || true
  rm -rf "$root"
  release=$(basename "$kernel"/boot/vmlinuz-*)
  if [[ $bench ]] && grep -q "^exit status 0" "$work/$version.log"; then
    echo "Linux ${release#vmlinuz-}, one stream by the wire, median and quartiles of 9 rounds:"
    # BenchmarkFallback 9 0.97 IPv4 0.91 IPv4-q1 ...
    tr -d '\r' <"$work/$version.log" | awk '/^BenchmarkFallback/ { for (i = 3; i < NF; i += 2) at[$(i + 1)] = $i
      for (path in at) if (path !~ /-q[13]$/) printf "  %-16s %.2f (%.2f-%.2f)\n", path, at[path], at[path "-q1"], at[path "-q3"] }' | sort
  elif grep -q "^exit status 0" "$work/$version.log"; then
    echo "Linux ${release#vmlinuz-}: all $(grep -c -- '^--- PASS' "$work/$version.log") tests passed"
  else
    failed=1
    echo "Linux ${release#vmlinuz-}: failed; the log is .kernels/$version.log:"
    grep -a -E -A 3 -- '--- FAIL|panic|BUG|Oops' "$work/$version.log" || tail -n 30 "$work/$version.log"
  fi
done
exit "$failed"
