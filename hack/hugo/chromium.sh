#!/usr/bin/env bash
# Makes sure that the test of the site has a browser. As root on Debian, it installs Chromium.
# Elsewhere it says how to install it, and fails.
set -euo pipefail

for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null; then
    exit
  fi
done
if command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  echo "Installing Chromium with apt-get ..."
  timeout 2m apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 5m apt-get install -qq -y --no-install-recommends chromium >/dev/null
  exit
fi
echo "make docs-test needs Chromium or Chrome: install it (on Debian: apt-get install chromium) and try again" >&2
exit 1
