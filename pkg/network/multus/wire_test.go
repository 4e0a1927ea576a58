package multus

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestWire(t *testing.T) {
	for config, want := range map[string]string{
		`{"type":"macvlan","master":"eth1"}`:                                 "macvlan master=eth1",
		`{"type":"macvlan","master":"eth1","mode":"private","mtu":1400}`:     "macvlan master=eth1",
		`{"type":"ipvlan","master":"eth1"}`:                                  "macvlan master=eth1",
		`{"plugins":[{"type":"macvlan","master":"eth1"},{"type":"tuning"}]}`: "macvlan master=eth1",
		`{"type":"macvlan"}`:                                                 "macvlan",
		`{"type":"vlan","master":"eth1","vlanId":5}`:                         "vlan master=eth1 vlanId=5",
		`{"type":"bridge","bridge":"br0","vlan":7,"ipam":{"type":"static"}}`: "bridge bridge=br0 vlan=7",
		`{"type":"bridge","bridge":null}`:                                    "bridge",
		`{"type":"sriov","deviceID":"0000:03:02.0"}`:                         "sriov deviceID=0000:03:02.0",
		`{"master":"eth1"}`:                                                  "",
		`{"type":7}`:                                                         "",
		`{"plugins":[]}`:                                                     "",
		`{"plugins":7}`:                                                      "",
		`null`:                                                               "",
		`nonsense`:                                                           "",
	} {
		if got := Wire(&v1.Network{Spec: v1.NetworkSpec{Attachment: &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: config}}}); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	if got := Wire(&v1.Network{}); got != "" {
		t.Errorf("an Overlay is on %q", got)
	}
}

// on returns a Network of type CNI in the given namespace.
func on(config, path, cidr string, exclude ...v1.AddressRange) *v1.Network {
	namespace, name, _ := strings.Cut(path, "/")
	return &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(path)},
		Spec:       v1.NetworkSpec{CIDR: cidr, Exclude: exclude, Attachment: &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: config}},
	}
}

func TestASharedWireIsTold(t *testing.T) {
	const eth1 = `{"type":"macvlan","master":"eth1"}`
	const plain = "status vni 0 Attachable=True/Defined: pods are attached by NetworkAttachmentDefinition blue"
	told := func(other string) string {
		text := "; Network " + other + " hands out some of the same addresses on the same wire (macvlan master=eth1), so two pods may get one address. " +
			"Divide them by spec.exclude, or use CIDRs that do not overlap"
		return "status vni 0 Attachable=True/SharedWire: pods are attached by NetworkAttachmentDefinition blue" + text +
			"\nevent Warning SharedWire: pods are attached by NetworkAttachmentDefinition blue" + text
	}
	for _, tt := range []struct {
		name   string
		others []*v1.Network
		want   string
	}{
		{"alone", nil, plain},
		{"with another", []*v1.Network{on(eth1, "other/red", "10.0.0.0/16")}, told("other/red")},
		{"with several", []*v1.Network{on(eth1, "a/beside", "10.1.0.0/24"), on(eth1, "a/red", "10.0.0.0/24"), on(eth1, "b/red", "10.0.0.0/24")}, told("a/red")},
		{"with one beside it", []*v1.Network{on(eth1, "a/beside", "10.1.0.0/24")}, plain},
		{"divided", []*v1.Network{on(eth1, "a/red", "10.0.0.0/24", "10.0.0.0/25")}, plain},
		{"on another wire", []*v1.Network{on(`{"type":"macvlan","master":"eth2"}`, "a/red", "10.0.0.0/24")}, plain},
		{"with one that cannot serve", []*v1.Network{on(eth1, "a/red", "10.0.0.0/24", "10.0.0.9-10.0.0.8")}, plain},
		{"with itself", []*v1.Network{on(eth1, "u1", "10.0.0.0/24")}, plain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(raw(eth1), func(s *State) {
				s.VNIs, s.Candidates = nil, nil
				s.Network.Spec.CIDR, s.Network.Spec.Exclude = "10.0.0.0/24", []v1.AddressRange{"10.0.0.128/25"}
				s.Others = tt.others
			})
			p := Diff(s)
			_, got, _ := strings.Cut(strings.TrimSpace(p.String()), "\n") // the first line is the definition
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			apply(&s, p)
			if p := Diff(s); !p.Empty() || len(p.Events) > 0 {
				t.Errorf("again: %s", p)
			}
		})
	}
}
