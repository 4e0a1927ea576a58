// The CNI plugins of the end-to-end tests' nodes: Multus, which gives a pod more than one interface, and those that
// make the interfaces.
module github.com/pod2/pod2/hack/e2e/tools/cni

go 1.26.0

tool (
	github.com/containernetworking/plugins/plugins/ipam/host-local
	github.com/containernetworking/plugins/plugins/ipam/static
	github.com/containernetworking/plugins/plugins/main/bridge
	github.com/containernetworking/plugins/plugins/main/loopback
	github.com/containernetworking/plugins/plugins/main/macvlan
	github.com/containernetworking/plugins/plugins/main/ptp
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus
)

require (
	github.com/containernetworking/plugins v1.9.1 // indirect
	// For its CRD, artifacts/networks-crd.yaml.
	github.com/k8snetworkplumbingwg/network-attachment-definition-client v1.7.7 // indirect
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4 v4.2.3 // indirect
)
