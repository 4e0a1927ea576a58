// The container runtime of the end-to-end tests' nodes. A module of its own: beside Kubernetes its versions would change
// those of both.
module github.com/pod2/pod2/hack/e2e/tools/containerd

go 1.26.6

tool (
	github.com/containerd/containerd/v2/cmd/containerd
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	github.com/containerd/containerd/v2/cmd/ctr
)

require github.com/containerd/containerd/v2 v2.4.2 // indirect
