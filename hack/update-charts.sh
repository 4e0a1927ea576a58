#!/usr/bin/env bash
# Copies the manifests into the charts, which read them, and writes the dashboard and docs/reference/helm-values.md. Run it after every change
# of crd/, artifacts/ or the values; CI runs verify-codegen.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

gen=$PWD/bin/gen
mkdir -p "$gen"
go build -C hack/tools -o "$gen/" ./helmvalues ./dashboard

"$gen/dashboard" artifacts/dashboard
rm -rf charts/pod2/files charts/pod2-crds/files
mkdir -p charts/pod2/files charts/pod2-crds/files
cp crd/*.yaml charts/pod2-crds/files/
cp artifacts/[1-9]*.yaml artifacts/apiserver/apiserver.yaml artifacts/alerts/pod2.rules.yaml artifacts/dashboard/dashboard.json charts/pod2/files/
cp artifacts/agent/daemonset.yaml charts/pod2/files/agent.yaml
cp artifacts/agent/cleanup/daemonset.yaml charts/pod2/files/agent-cleanup.yaml

{
  cat <<'END'
# Helm values

<!-- Written by make generate from the chart, which overwrites manual changes. -->

For administrators who install Pod2 with Helm. This page lists the values of the chart `pod2`. The chart `pod2-crds` has no values. A
wrong name or type is an error. With the defaults, the chart has the same objects as `artifacts/`.

END
  "$gen/helmvalues" charts/pod2
  cat <<'END'
## Next steps

- [Install Pod2](../how-to/install.md)
- [Flags](flags.md), for the lists `args`
- [Monitor Pod2](../how-to/monitor.md), for `metrics`
END
} > docs/reference/helm-values.md
