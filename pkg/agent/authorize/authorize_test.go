package authorize

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// valid is pod default/web-0 on node n1, which the runtime attaches to Network blue. It is on two
// Networks.
func valid() Input {
	return Input{
		Request: cni.Attachment{ID: cni.ID{ContainerID: "5b0c", Interface: "net1"}, Network: "default.blue",
			Pod: cni.Pod{Namespace: "default", Name: "web-0", UID: "8f31"},
			IPs: []netip.Prefix{netip.MustParsePrefix("192.168.0.2/16")}, MAC: "0a:58:c0:a8:00:02"},
		Node: "n1",
		Pod: &dataplane.Pod{Namespace: "default", Name: "web-0", UID: "8f31", Node: "n1", Attachments: []dataplane.Attachment{
			{Network: "amber", IP: netip.MustParseAddr("10.0.0.9"), MAC: dataplane.MAC{0x0a, 0x58, 10, 0, 0, 9}, Bits: 24},
			{Network: "blue", IP: netip.MustParseAddr("192.168.0.2"), MAC: dataplane.MAC{0x0a, 0x58, 192, 168, 0, 2}, Bits: 16},
		}},
		Network: &dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("192.168.0.0/16"),
			Gateway: netip.MustParseAddr("192.168.0.1"), MTU: 1450, Egress: true},
	}
}

func TestAttachment(t *testing.T) {
	const whole = "VNI 1001: 0a:58:c0:a8:00:02 192.168.0.2/16 MTU 1450 gateway 192.168.0.1 routes []"
	const repair = ": it must ask for Network blue only in annotation samplecrd.k8s.io/networks, not in those of Multus; recreate the pod"
	for _, tt := range []struct {
		name string
		in   func(*Input)
		want string
	}{
		{"as published", func(*Input) {}, whole},
		{"the runtime gives no addresses", func(in *Input) { in.Request.IPs, in.Request.MAC = nil, "" }, whole},
		{"MAC in capitals", func(in *Input) { in.Request.MAC = "0A:58:C0:A8:00:02" }, whole},
		{"any interface", func(in *Input) { in.Request.Interface = "db" }, whole},
		{"Network has grown", func(in *Input) { in.Network.CIDR = netip.MustParsePrefix("192.168.0.0/15") },
			"VNI 1001: 0a:58:c0:a8:00:02 192.168.0.2/16 MTU 1450 gateway 192.168.0.1 routes [192.168.0.0/15]"},
		{"no gateway", func(in *Input) { in.Network.Gateway = netip.Addr{} }, "VNI 1001: 0a:58:c0:a8:00:02 192.168.0.2/16 MTU 1450 gateway invalid IP routes []"},
		{"IPv6", func(in *Input) {
			in.Network.CIDR, in.Network.Gateway = netip.MustParsePrefix("fd00::/64"), netip.MustParseAddr("fd00::1")
			in.Pod.Attachments[1].IP, in.Pod.Attachments[1].Bits = netip.MustParseAddr("fd00::2"), 80
			in.Request.IPs = []netip.Prefix{netip.MustParsePrefix("FD00:0::2/80")}
		}, "VNI 1001: 0a:58:c0:a8:00:02 fd00::2/80 MTU 1450 gateway fd00::1 routes [fd00::/64]"},

		{"configuration of another program", func(in *Input) { in.Request.Network = "kindnet" },
			`100: the CNI configuration "kindnet" is not named after a Network, as in "default.blue": only the controller may write configurations of type pod2-cni`},
		{"three names", func(in *Input) { in.Request.Network = "default.blue.x" },
			`100: the CNI configuration "default.blue.x" is not named after a Network, as in "default.blue": only the controller may write configurations of type pod2-cni`},
		{"no pod named", func(in *Input) { in.Request.Pod = cni.Pod{} },
			"100: the container runtime named no pod to attach to Network default/blue: it must pass K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID in CNI_ARGS"},
		{"no UID", func(in *Input) { in.Request.Pod.UID = "" },
			"100: the container runtime named no pod to attach to Network default/blue: it must pass K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID in CNI_ARGS"},
		{"Network of another namespace", func(in *Input) {
			in.Request.Network, in.Network.Namespace = "other.blue", "other"
		}, "100: pod default/web-0 cannot join Network other/blue: a pod joins only Networks of its own namespace"},
		{"pod unknown", func(in *Input) { in.Pod = nil },
			"11: pod default/web-0 has no published addresses that pod2-agent on node n1 knows: if this lasts, compare annotation samplecrd.k8s.io/addresses of the pod with its condition in kubectl describe pod"},
		{"another pod", func(in *Input) { in.Pod.Name = "web-1" }, "100: pod default/web-0: pod2-agent looked up pod default/web-1 instead"},
		{"the pod before or after it", func(in *Input) { in.Request.Pod.UID = "aaaa" },
			"11: pod default/web-0 was recreated: the kubelet starts the one with UID aaaa, and pod2-agent knows the one with UID 8f31"},
		{"another node", func(in *Input) { in.Pod.Node = "n2" }, "100: pod default/web-0 is on node n2, not on n1"},
		{"not on the Network", func(in *Input) { in.Pod.Attachments = in.Pod.Attachments[:1] },
			"100: pod default/web-0 has no address on Network blue: add blue to annotation samplecrd.k8s.io/networks in the pod's template, and recreate the pod"},
		{"Network unknown", func(in *Input) { in.Network = nil },
			"11: pod default/web-0: Network blue does not exist, is not an Overlay Network, has no VNI yet, or the controller has not written its AddressSlice yet: see kubectl describe network blue -n default"},
		{"another Network", func(in *Input) { in.Network.Name = "green" }, "100: pod default/web-0: pod2-agent looked up Network default/green instead of blue"},
		{"Network recreated", func(in *Input) { in.Network.CIDR = netip.MustParsePrefix("10.0.0.0/8") },
			"100: pod default/web-0 has the address 192.168.0.2, which is not in 10.0.0.0/8 of Network blue: the Network was recreated, so recreate the pod"},
		{"IP address of the gateway", func(in *Input) { in.Network.Gateway = in.Pod.Attachments[1].IP },
			"100: pod default/web-0 has the address of the gateway of Network blue, 192.168.0.2 and 0a:58:c0:a8:00:02: recreate the pod"},
		{"MAC address of the gateway", func(in *Input) { in.Pod.Attachments[1].MAC = dataplane.GatewayMAC(1001) },
			"100: pod default/web-0 has the address of the gateway of Network blue, 192.168.0.2 and 02:00:5e:00:03:e9: recreate the pod"},
		{"prefix length", func(in *Input) { in.Pod.Attachments[1].Bits = 33 }, "100: pod default/web-0 has the address 192.168.0.2 with an invalid prefix length: recreate the pod"},
		{"another address", func(in *Input) { in.Request.IPs[0] = netip.MustParsePrefix("192.168.0.3/16") },
			"100: pod default/web-0 asks for the address 192.168.0.3/16 on Network blue, and was given 192.168.0.2/16" + repair},
		{"another prefix length", func(in *Input) { in.Request.IPs[0] = netip.MustParsePrefix("192.168.0.2/24") },
			"100: pod default/web-0 asks for the address 192.168.0.2/24 on Network blue, and was given 192.168.0.2/16" + repair},
		{"a second address", func(in *Input) { in.Request.IPs = append(in.Request.IPs, netip.MustParsePrefix("192.168.0.3/16")) },
			"100: pod default/web-0 asks for the address 192.168.0.3/16 on Network blue, and was given 192.168.0.2/16" + repair},
		{"the address on another Network", func(in *Input) { in.Request.IPs[0] = netip.MustParsePrefix("10.0.0.9/24") },
			"100: pod default/web-0 asks for the address 10.0.0.9/24 on Network blue, and was given 192.168.0.2/16" + repair},
		{"another MAC", func(in *Input) { in.Request.MAC = "0a:58:c0:a8:00:03" },
			`100: pod default/web-0 asks for the MAC address "0a:58:c0:a8:00:03" on Network blue, and was given 0a:58:c0:a8:00:02` + repair},
		{"text as MAC", func(in *Input) { in.Request.MAC = "none" },
			`100: pod default/web-0 asks for the MAC address "none" on Network blue, and was given 0a:58:c0:a8:00:02` + repair},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := valid()
			tt.in(&in)
			p, err := Attachment(in)
			got := fmt.Sprintf("VNI %d: %s %s MTU %d gateway %s routes %s", p.VNI, p.MAC, p.Address, p.MTU, p.Gateway, p.Routes)
			var told *cni.Error
			if errors.As(err, &told) {
				got = fmt.Sprintf("%d: %s", told.Code, told)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestResult(t *testing.T) {
	in := valid()
	in.Network.CIDR = netip.MustParsePrefix("192.168.0.0/15")
	p, err := Attachment(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p.Result(in.Request.ID)), "{pod247a35d2cb39 0a:58:c0:a8:00:02 1450 192.168.0.2/16 192.168.0.1 [{192.168.0.0/15 invalid IP}]}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
