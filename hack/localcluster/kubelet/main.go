// Command kubelet is Kubernetes' own: its main function and nothing else. It is here,
// and not among the tools of go.mod, so that only `make e2e` builds it, and in this
// module, so that it has the version of the control plane.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // logging as JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // and of the version
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
