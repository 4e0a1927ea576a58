// What starts the containers of the end-to-end tests' nodes. It is built with seccomp, without which containerd starts
// no pod, and so needs libseccomp: hack/e2e.sh gets it.
module github.com/pod2/pod2/hack/e2e/tools/runc

go 1.26.0

tool github.com/opencontainers/runc

require github.com/opencontainers/runc v1.5.2 // indirect
