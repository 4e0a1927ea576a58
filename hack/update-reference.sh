#!/usr/bin/env bash
# Writes the generated pages of docs/reference: api.md from the types in pkg/apis, view-api.md
# from those of pod2-apiserver, and kubectl-pod2.md and flags.md from the help texts. Run it
# after every change of them; CI runs verify-codegen.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

gen=$PWD/bin/gen
mkdir -p "$gen"
go build -C hack/docs -trimpath -ldflags "-s -w" -o "$gen/" tool
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$gen/pod2-controller" .
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$gen/" ./cmd/kubectl-pod2
CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w" -o "$gen/" ./cmd/pod2-agent
CGO_ENABLED=0 go build -C cmd/pod2-apiserver -trimpath -o "$gen/" .

page() { # directory of the types, page
  "$gen/crd-ref-docs" --log-level=ERROR --config=hack/docs/crd-ref-docs.yaml --renderer=markdown \
    --templates-dir=hack/docs/templates --source-path="$1" --output-path="docs/reference/$2"
}
page pkg/apis api.md
page cmd/pod2-apiserver/apis view-api.md

# Prints a program's help text, which has defaults from the environment.
help() { # program arguments...
  # shellcheck disable=SC2016 # the page says $HOME
  env -i HOME='$HOME' "$gen/$1" "${@:2}" --help 2>&1 | sed 's/ *$//'
}

block() {
  printf '```text\n'
  cat
  printf '```\n\n'
}

# Writes a section for each command of the plugin, except the shells of completion.
commands() { # arguments...
  local text child
  text=$(help kubectl-pod2 "$@")
  if [ $# -gt 0 ]; then
    printf '## kubectl pod2 %s\n\n' "$*"
    printf '%s\n' "$text" | sed '/^Global Flags:/,$d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | block
  fi
  [ "$*" != completion ] || return 0
  for child in $(printf '%s\n' "$text" | sed -n '/^Available Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [ "$child" = help ] || commands "$@" "$child"
  done
}

{
  cat <<'END'
# kubectl pod2

<!-- Written by make reference from the help texts, which overwrites manual changes. -->

For users of the plugin `kubectl pod2`. This page has the output of `--help` for each command. Each command also has
the flags of the first section, which kubectl has too. To complete names with the Tab key, put
`hack/kubectl_complete-pod2` into your `PATH`, beside the plugin.

## kubectl pod2

END
  help kubectl-pod2 | block
  commands
  cat <<'END'
## Next steps

- [Roll out a change and undo it](../how-to/roll-out-and-undo.md)
- [A rollout is stuck](../troubleshooting/rollout-stuck.md)
END
} > docs/reference/kubectl-pod2.md

{
  cat <<'END'
# Flags

<!-- Written by make reference from the help texts, which overwrites manual changes. -->

For administrators who configure the controller, the agent and the optional API server. This page has the output of
`--help` for each program. Set the flags in `args` of the container, in `artifacts/40-deployment.yaml`,
`artifacts/agent/daemonset.yaml` and `artifacts/apiserver/apiserver.yaml`.

## pod2-controller

END
  help pod2-controller | block
  printf '## pod2-agent\n\n'
  help pod2-agent | block
  printf '## pod2-apiserver\n\nThe flags `--namespace` and `--certificate-*` are of this server. The others are those of any aggregated API server.\n\n'
  help pod2-apiserver | block
  cat <<'END'
## Next steps

- [kubectl pod2](kubectl-pod2.md)
- [Metrics](metrics.md)
- [Compatibility](compatibility.md)
END
} > docs/reference/flags.md
