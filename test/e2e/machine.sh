# Part of test/e2e/e2e.sh, which sources it: what the machine is able to do, the cgroups on it, and what of a cluster is on it.
# shellcheck shell=bash disable=SC2154 # variables, members and first are those of test/e2e/e2e.sh

# lacks_kernel prints why this machine cannot do what pkg/agent/kernel tests, and fails if it can.
lacks_kernel() {
  local reason
  if [[ $(uname -s) != Linux ]]; then
    echo "they need Linux, and this is $(uname -s)"
  elif ((EUID != 0)); then
    echo "they need root, and this is user $EUID"
  else
    reason=$(cd "$root" && go run ./test/e2e/nodenet lacks)
    [[ -n $reason ]] && echo "$reason"
  fi
}

# lacks_nodes is the same for nodes.
lacks_nodes() {
  local name
  if lacks_kernel; then return; fi
  for name in unshare nsenter mount pivot_root; do
    command -v "$name" >/dev/null || { echo "they need the program $name of util-linux, which is not here" && return; }
  done
  # shellcheck disable=SC2016 # $1 is of that bash
  if ! unshare --mount --net --pid --ipc --uts --fork bash -c 'mount -t tmpfs none "$1" && mkdir "$1/p" "$1/s" &&
    mount -t proc proc "$1/p" && mount -t sysfs sysfs "$1/s"' - "$root/hack" &>/dev/null; then
    echo "they need the right to make namespaces and to mount in them, which this root has not"
  elif [[ ! -r /dev/kmsg ]]; then
    echo "they need /dev/kmsg, which kubelets read"
  else
    lacks_cgroups
  fi
}

# lacks_cgroups tries to make one with what kubelets limit. Where cgroup v2 shows a container's own cgroup as the root,
# and the container's processes are in that, the kernel gives its children nothing.
lacks_cgroups() {
  local at controller lacking=
  make_cgroup "$cgroup/try" &>/dev/null || lacking="cgroups that can be written"
  for controller in cpu cpuset memory pids; do
    at=/sys/fs/cgroup/$cgroup/try/cgroup.controllers
    if [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]; then
      grep -qw "$controller" "$at" 2>/dev/null || lacking=${lacking:-the cgroup controller $controller}
    elif [[ ! -d /sys/fs/cgroup/$controller/$cgroup/try ]]; then
      lacking=${lacking:-the cgroup controller $controller}
    fi
  done
  remove_cgroup
  [[ -n $lacking ]] && echo "they need $lacking, which is not here"
}

# hierarchies prints where cgroups are: one place with cgroup v2, one for each controller with v1.
hierarchies() {
  awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts
}

make_cgroup() {
  local hierarchy path part file
  while read -r hierarchy; do
    path=$hierarchy
    for part in ${1//\// }; do
      # v2: children have the controllers that their parent lists here.
      if [[ -e $path/cgroup.subtree_control && $hierarchy == /sys/fs/cgroup ]]; then
        sed 's/[^ ]*/+&/g' "$path/cgroup.controllers" >"$path/cgroup.subtree_control" || true
      fi
      path+=/$part
      mkdir -p -- "$path"
      # v1: a cpuset starts without any, and can then hold no process.
      for file in cpuset.cpus cpuset.mems; do
        if [[ -e $path/cgroup.clone_children && -e $path/$file && -z $(<"$path/$file") ]]; then
          cat "${path%/*}/$file" >"$path/$file"
        fi
      done
    done
  done < <(hierarchies)
}

remove_cgroup() {
  local hierarchy attempt
  while read -r hierarchy; do
    for attempt in {1..50}; do
      [[ -d $hierarchy/$cgroup ]] || break
      # A process that was killed is in its cgroup until somebody has asked how it ended.
      find "$hierarchy/$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
      ((attempt < 50)) || echo "e2e: the cgroup $hierarchy/$cgroup cannot be removed" >&2
    done
  done < <(hierarchies)
}

# traces prints what of a cluster in $dir there is on the machine, and what kubelets are known to change. A namespace is
# there as long as a process is in it, or a mount keeps it.
traces() {
  local file name
  awk -v dir="$dir/" 'index($0, dir) { print "mount " $5 }' /proc/self/mountinfo
  while read -r file; do find "$file" -maxdepth 1 -name "$cgroup"; done < <(hierarchies)
  for name in $(members); do ! first "$name" >/dev/null || echo "process of $name"; done
  # Of nodes: who sees one of their directories mounted. The hub's name files of $dir.
  for file in $(grep -lsF "$dir/" /proc/[0-9]*/mountinfo /proc/[0-9]*/cmdline); do
    # That grep itself has ended.
    name=$(tr '\0' ' ' 2>/dev/null <"${file%/*}/cmdline") || continue
    [[ -z $name ]] || echo "process $name"
  done
  [[ ! -e $dir ]] || find "$dir" -mindepth 1 -maxdepth 2
  "$bin/e2e/nodenet" state
  for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes net/ipv4/ip_forward net/ipv6/conf/all/forwarding; do
    [[ ! -e /proc/sys/$file ]] || echo "sysctl $file $(<"/proc/sys/$file")"
  done
}
