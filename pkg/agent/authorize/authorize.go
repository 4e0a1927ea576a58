package authorize

import (
	"net/netip"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Input of a decision.
type Input struct {
	Request cni.Attachment
	// Node is the name of this node.
	Node string
	// Pod has the namespace and name of the request. It is nil while the agent knows no such
	// pod on its node with published addresses.
	Pod *dataplane.Pod
	// Network has the namespace and name that NetworkName returns. It is nil while the agent
	// knows no AddressSlice with the properties of such a Network.
	Network *dataplane.Network
}

// Port is an attachment that the pod may have.
type Port struct {
	VNI int32
	MAC dataplane.MAC
	// Address has the prefix length that was published, and its host bits.
	Address netip.Prefix
	MTU     int
	// Gateway is zero if the Network has none. The pod gets no route to it: Multus makes a
	// default route if the pod asks for the Network on its primary interface.
	Gateway netip.Addr
	// Routes are destinations on the link, in addition to that of Address.
	Routes []netip.Prefix
}

// NetworkName reads the name of a CNI configuration: "default.blue" is Network blue in
// namespace default. Neither name can have a dot.
func NetworkName(configuration string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(configuration, ".")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ".")
}

// Attachment returns the port of the pod, or the reason for the user, who reads it in the
// events of the pod. The reason is a *cni.Error. It has CodeTryAgainLater while the agent may know
// too little. The kubelet tries again in each case.
func Attachment(in Input) (Port, error) {
	r, pod, n := in.Request, in.Pod, in.Network
	namespace, network, ok := NetworkName(r.Network)
	switch {
	case !ok:
		return refuse(`the CNI configuration %.80q is not named after a Network, as in "default.blue": only the controller may write configurations of type pod2-cni`, r.Network)
	case r.Pod.Namespace == "" || r.Pod.Name == "" || r.Pod.UID == "":
		return refuse("the container runtime named no pod to attach to Network %s/%s: it must pass K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID in CNI_ARGS", namespace, network)
	case namespace != r.Pod.Namespace:
		return refuse("pod %s cannot join Network %s/%s: a pod joins only Networks of its own namespace", r.Pod, namespace, network)
	case pod == nil:
		return later("pod %s has no published addresses that pod2-agent on node %s knows: if this lasts, compare annotation %s of the pod with its condition in kubectl describe pod", r.Pod, in.Node, v1.AddressesAnnotation)
	case pod.Namespace != r.Pod.Namespace || pod.Name != r.Pod.Name:
		return refuse("pod %s: pod2-agent looked up pod %s/%s instead", r.Pod, pod.Namespace, pod.Name)
	case string(pod.UID) != r.Pod.UID:
		return later("pod %s was recreated: the kubelet starts the one with UID %.80s, and pod2-agent knows the one with UID %s", r.Pod, r.Pod.UID, pod.UID)
	case pod.Node != in.Node:
		return refuse("pod %s is on node %s, not on %s", r.Pod, pod.Node, in.Node)
	}
	for _, a := range pod.Attachments {
		if a.Network == network {
			return port(r, a, n)
		}
	}
	return refuse("pod %s has no address on Network %s: add %s to annotation %s in the pod's template, and recreate the pod", r.Pod, network, network, v1.NetworksAnnotation)
}

// port of a pod with the published attachment a.
func port(r cni.Attachment, a dataplane.Attachment, n *dataplane.Network) (Port, error) {
	published := netip.PrefixFrom(a.IP, a.Bits)
	switch {
	case n == nil:
		return later("pod %s: Network %s does not exist, is not an Overlay Network, has no VNI yet, or the controller has not written its AddressSlice yet: see kubectl describe network %s -n %s", r.Pod, a.Network, a.Network, r.Pod.Namespace)
	case n.Namespace != r.Pod.Namespace || n.Name != a.Network:
		return refuse("pod %s: pod2-agent looked up Network %s/%s instead of %s", r.Pod, n.Namespace, n.Name, a.Network)
	case !n.CIDR.Contains(a.IP):
		return refuse("pod %s has the address %s, which is not in %s of Network %s: the Network was recreated, so recreate the pod", r.Pod, a.IP, n.CIDR, a.Network)
	case a.IP == n.Gateway || a.MAC == dataplane.GatewayMAC(n.VNI):
		return refuse("pod %s has the address of the gateway of Network %s, %s and %s: recreate the pod", r.Pod, a.Network, a.IP, a.MAC)
	case !published.IsValid():
		return refuse("pod %s has the address %s with an invalid prefix length: recreate the pod", r.Pod, a.IP)
	}
	const repair = "it must ask for Network %s only in annotation %s, not in those of Multus; recreate the pod"
	for _, ip := range r.IPs {
		if ip != published {
			return refuse("pod %s asks for the address %s on Network %s, and was given %s: "+repair, r.Pod, ip, a.Network, published, a.Network, v1.NetworksAnnotation)
		}
	}
	if r.MAC != "" {
		if mac, err := dataplane.ParseMAC(r.MAC); err != nil || mac != a.MAC {
			return refuse("pod %s asks for the MAC address %.40q on Network %s, and was given %s: "+repair, r.Pod, r.MAC, a.Network, a.MAC, a.Network, v1.NetworksAnnotation)
		}
	}
	p := Port{VNI: n.VNI, MAC: a.MAC, Address: published, MTU: n.MTU, Gateway: n.Gateway}
	if route := n.Route(a); route.IsValid() {
		p.Routes = []netip.Prefix{route}
	}
	return p, nil
}

func refuse(format string, args ...any) (Port, error) {
	return Port{}, cni.Errorf(cni.CodeRefused, format, args...)
}

func later(format string, args ...any) (Port, error) {
	return Port{}, cni.Errorf(cni.CodeTryAgainLater, format, args...)
}

// Result is the port as the plugin shows it to the container runtime.
func (p Port) Result(id cni.ID) cni.Result {
	r := cni.Result{HostInterface: id.HostInterface(), MAC: p.MAC.String(), MTU: p.MTU, Address: p.Address, Gateway: p.Gateway}
	for _, destination := range p.Routes {
		r.Routes = append(r.Routes, cni.Route{Destination: destination})
	}
	return r
}
