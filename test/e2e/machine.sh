# Part of test/e2e/e2e.sh, which sources it: the abilities of the machine, its cgroups, and the traces of a cluster on it.
# shellcheck shell=bash disable=SC2154 # variables, members and first come from test/e2e/e2e.sh

# lacks_kernel prints the reason why this machine cannot run the tests of pkg/agent/kernel. It fails if there is none.
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

# lacks_nodes does the same for nodes.
lacks_nodes() {
  local name
  if lacks_kernel; then return; fi
  for name in unshare nsenter mount pivot_root; do
    command -v "$name" >/dev/null || { echo "they need the program $name of util-linux" && return; }
  done
  # shellcheck disable=SC2016 # $1 belongs to the inner bash
  if ! unshare --mount --net --pid --ipc --uts --fork bash -c 'mount -t tmpfs none "$1" && mkdir "$1/p" "$1/s" &&
    mount -t proc proc "$1/p" && mount -t sysfs sysfs "$1/s" && mount -t bpf bpf "$1/s/fs/bpf"' - "$root/hack" &>/dev/null; then
    echo "they need the right to make namespaces and to mount in them, which root does not have here"
  elif [[ ! -r /dev/kmsg ]]; then
    echo "they need /dev/kmsg, because kubelets read it"
  else
    lacks_cgroups
  fi
}

# lacks_cgroups tries to make a cgroup with the controllers that kubelets use. With cgroup v2, a container may see its own
# cgroup as the root. If the container's processes are in it, the kernel gives its children no controllers.
lacks_cgroups() {
  local at controller lacking=
  make_cgroup "$cgroup/try" &>/dev/null || lacking="writable cgroups"
  for controller in cpu cpuset memory pids; do
    at=/sys/fs/cgroup/$cgroup/try/cgroup.controllers
    if [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]; then
      grep -qw "$controller" "$at" 2>/dev/null || lacking=${lacking:-the cgroup controller $controller}
    elif [[ ! -d /sys/fs/cgroup/$controller/$cgroup/try ]]; then
      lacking=${lacking:-the cgroup controller $controller}
    fi
  done
  remove_cgroup
  [[ -n $lacking ]] && echo "they need $lacking"
}

# hierarchies prints the mount points of cgroups: one with cgroup v2, one for each controller with v1.
hierarchies() {
  awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts
}

make_cgroup() {
  local hierarchy path part file
  while read -r hierarchy; do
    path=$hierarchy
    for part in ${1//\// }; do
      # v2: the children of a cgroup have the controllers that it lists here.
      if [[ -e $path/cgroup.subtree_control && $hierarchy == /sys/fs/cgroup ]]; then
        sed 's/[^ ]*/+&/g' "$path/cgroup.controllers" >"$path/cgroup.subtree_control" || true
      fi
      path+=/$part
      mkdir -p -- "$path"
      # v1: a new cpuset is empty and cannot hold a process.
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
      # A killed process stays in its cgroup until its parent has read its exit status.
      find "$hierarchy/$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
      ((attempt < 50)) || echo "e2e: cannot remove the cgroup $hierarchy/$cgroup" >&2
    done
  done < <(hierarchies)
}

# traces prints everything of a cluster in $dir that is on the machine, and the settings that kubelets change. A namespace
# exists as long as it has a process or a mount.
traces() {
  local file name
  awk -v dir="$dir/" 'index($0, dir) { print "mount " $5 }' /proc/self/mountinfo
  while read -r file; do find "$file" -maxdepth 1 -name "$cgroup"; done < <(hierarchies)
  for name in $(members); do ! first "$name" >/dev/null || echo "process of $name"; done
  # Processes of nodes have one of the node's directories mounted. Those of the hub name files of $dir.
  for file in $(grep -lsF "$dir/" /proc/[0-9]*/mountinfo /proc/[0-9]*/cmdline); do
    # The grep itself has ended by now.
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
