// Command kubelet is the kubelet of Kubernetes, nothing else. It is not among the tools of
// go.mod, so only `make e2e` builds it. It is in this module to have the version of the
// control plane.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON logs
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // metrics of the version
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
