#!/usr/bin/env bash
# Builds the programs of other projects that make bench compares Pod2 with, into bin/peers. Each project has a module of its
# own here, with the versions of dependencies that its own go.mod has. So users of Pod2 never download them.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

build() { # MODULE PACKAGE PROGRAM
  echo "Building bin/peers/$3 ..."
  CGO_ENABLED=0 go build -C "$1" -trimpath -ldflags "-s -w" -o ../../../../bin/peers/"$3" "$2"
}

build whereabouts github.com/k8snetworkplumbingwg/whereabouts/cmd whereabouts
build whereabouts github.com/k8snetworkplumbingwg/whereabouts/cmd/nodeslicecontroller node-slice-controller
build kruise github.com/openkruise/kruise kruise-manager
build spiderpool github.com/spidernet-io/spiderpool/cmd/spiderpool spiderpool
build spiderpool github.com/spidernet-io/spiderpool/cmd/spiderpool-agent spiderpool-agent
build spiderpool github.com/spidernet-io/spiderpool/cmd/spiderpool-controller spiderpool-controller
