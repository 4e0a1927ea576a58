#!/usr/bin/env bash
# Prepares the browser tests: Chromium, and axe-core, which looks for things that a screen reader cannot use. As root on Debian,
# it installs Chromium and npm if they are missing. Elsewhere it says so, and fails. axe-core is kept in bin/.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
axe=4.10.3
"$root/hack/hugo/chromium.sh"
if [[ ! -s $root/bin/axe-$axe.js ]]; then
  if ! command -v npm >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
    echo "Installing npm with apt-get ..."
    timeout 2m apt-get update -qq
    DEBIAN_FRONTEND=noninteractive timeout 5m apt-get install -qq -y --no-install-recommends npm >/dev/null
  fi
  if ! command -v npm >/dev/null; then
    echo "make dashboard-test needs npm: install it (on Debian: apt-get install npm) and try again" >&2
    exit 1
  fi
  work=$(mktemp -d)
  trap 'rm -rf -- "$work"' EXIT
  (cd -- "$work" && npm pack --silent "axe-core@$axe" >/dev/null && tar xzf "axe-core-$axe.tgz" package/axe.min.js)
  mkdir -p -- "$root/bin"
  mv -- "$work/package/axe.min.js" "$root/bin/axe-$axe.js"
fi
echo "$root/bin/axe-$axe.js"
