package multus

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

const blueConfig = `{"cniVersion":"1.0.0","name":"default.blue","plugins":[{"type":"pod2-cni","capabilities":{"ips":true,"mac":true}}]}`

// state is the converged State of a Network.
func state(change ...func(*State)) State {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1", Generation: 1, Finalizers: []string{v1.InUseFinalizer}}}
	n.Status.VNI, n.Status.ObservedGeneration = 70000, 1
	s := State{
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Namespace: "default", Name: "blue", Network: n,
		VNIs: []*v1.VNI{vni("70000", "u1")}, Candidates: []int32{70001, 70002}, Installed: true,
	}
	s.Definition = s.newDefinition(blueConfig)
	s.Network.Status.Conditions = []metav1.Condition{{
		Type: v1.ConditionAttachable, Status: metav1.ConditionTrue, Reason: ReasonDefined,
		Message: "pods are attached by NetworkAttachmentDefinition blue", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(s.Now),
	}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func vni(name string, network types.UID) *v1.VNI {
	return &v1.VNI{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of-" + name)},
		Spec:       v1.VNISpec{Network: v1.NetworkReference{Namespace: "default", Name: "blue", UID: network}},
	}
}

func fresh(s *State) {
	s.Network.Status, s.VNIs, s.Definition = v1.NetworkStatus{ObservedGeneration: 1}, nil, nil
}

func raw(config string) func(*State) {
	return func(s *State) {
		fresh(s)
		s.Network.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: config}
	}
}

const attachable = "status vni 70000 Attachable=True/Defined: pods are attached by NetworkAttachmentDefinition blue\n"

func TestDiff(t *testing.T) {
	const taken = "NetworkAttachmentDefinition blue exists but does not belong to this Network: delete it, or create a Network with another name"
	for _, tt := range []struct {
		name   string
		change func(*State)
		want   string
	}{
		{"converged", func(*State) {}, ""},
		{"new", fresh, "claim VNI 70001 for u1\ncreate definition blue: " + blueConfig + "\n" + strings.ReplaceAll(attachable, "70000", "70001")},
		{"without our finalizer the Network could be gone by then", func(s *State) { fresh(s); s.Network.Finalizers = nil }, ""},
		{"before its own first status", func(s *State) { fresh(s); s.Network.Status.ObservedGeneration = 0 }, ""},
		{"before the status of a new spec", func(s *State) { s.Network.Generation = 2; s.Network.Spec.MTU = ptr.To[int32](8950) }, ""},
		{"being deleted", func(s *State) { fresh(s); s.Network.DeletionTimestamp = &metav1.Time{} }, ""},
		{"claimed, but the response was lost", func(s *State) { s.Network.Status.VNI = 0 }, attachable},
		{"the status was lost while two were held", func(s *State) {
			s.Network.Status.VNI = 0
			s.VNIs = append(s.VNIs, vni("66000", "u1"))
		}, "status vni 66000 Attachable=True/Defined: pods are attached by NetworkAttachmentDefinition blue\n"},
		{"two are held, and the status says which one counts", func(s *State) { s.VNIs = append(s.VNIs, vni("66000", "u1")) },
			"release VNI 66000 (uid of-66000), if unused: the Network has another VNI\n"},
		{"two are held, and the cache lacks the number in the status", func(s *State) {
			s.VNIs = []*v1.VNI{vni("66000", "u1"), vni("66001", "u1")}
			s.Candidates = append(s.Candidates, 70000)
		}, "claim VNI 70000 for u1\n"},
		{"a user deleted its VNI", func(s *State) { s.VNIs, s.Candidates = nil, append(s.Candidates, 70000) }, "claim VNI 70000 for u1\n"},
		{"a user deleted its VNI, and another Network claimed the number", func(s *State) { s.VNIs = nil },
			"claim VNI 70001 for u1\n" + strings.ReplaceAll(attachable, "70000", "70001")},
		{"recreated", func(s *State) { s.VNIs = append(s.VNIs, vni("66000", "u0")) },
			"release VNI 66000 (uid of-66000), if unused: the Network is gone\n"},
		{"gone", func(s *State) { s.Network, s.Definition = nil, nil },
			"release VNI 70000 (uid of-70000), if unused: the Network is gone\n"},
		{"a VNI that is being deleted does not count", func(s *State) { s.VNIs[0].DeletionTimestamp = &metav1.Time{}; s.Network.Status.VNI = 0 },
			"claim VNI 70001 for u1\n" + strings.ReplaceAll(attachable, "70000", "70001")},
		{"no number is free", func(s *State) { fresh(s); s.Candidates = nil },
			"status vni 0 Attachable=False/NoFreeVNI: found no free VXLAN Network Identifier; delete VNIs that no Network uses\n" +
				"event Warning NoFreeVNI: found no free VXLAN Network Identifier; delete VNIs that no Network uses\n"},
		{"without Multus", func(s *State) { s.Installed, s.Definition = false, nil },
			"status vni 70000 Attachable=False/NotInstalled: the cluster has no NetworkAttachmentDefinitions: pods get addresses but are not attached; install Multus\n"},
		{"a user edited the definition", func(s *State) { s.Definition.Spec.Config = "{}" }, "update definition blue (version ): config\n"},
		{"a user removed its label", func(s *State) { s.Definition.Labels = nil }, "update definition blue (version ): label samplecrd.k8s.io/network\n"},
		{"a user removed its owner reference", func(s *State) { s.Definition.OwnerReferences = nil }, "update definition blue (version ): owner reference\n"},
		{"a definition of another owner", func(s *State) { s.Definition.OwnerReferences, s.Definition.Labels = nil, nil },
			"status vni 70000 Attachable=False/NameTaken: " + taken + "\nevent Warning NameTaken: " + taken + "\n"},
		{"of an earlier Network", func(s *State) { s.Definition.OwnerReferences[0].UID = "u0" },
			"status vni 70000 Attachable=False/WaitingForDeletion: NetworkAttachmentDefinition blue belongs to an earlier Network with this name; the garbage collector will delete it\n"},
		{"the definition is being deleted", func(s *State) { s.Definition.DeletionTimestamp = &metav1.Time{} },
			"status vni 70000 Attachable=False/WaitingForDeletion: NetworkAttachmentDefinition blue is being deleted; the controller then recreates it\n"},
		{"another MTU, which only the agent uses", func(s *State) { s.Network.Spec.MTU = ptr.To[int32](8950) }, ""},
		{"the definition of a release with bridges", func(s *State) {
			s.Definition.Spec.Config = `{"cniVersion":"1.0.0","name":"default.blue","plugins":[{"type":"bridge","bridge":"nw70000","mtu":1450,"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`
		}, "update definition blue (version ): config\n"},
		{"a plugin of the user", raw(`{"type":"macvlan"}`),
			`create definition blue: {"capabilities":{"ips":true,"mac":true},"cniVersion":"1.0.0","ipam":{"type":"static"},"name":"default.blue","type":"macvlan"}` + "\n" +
				strings.ReplaceAll(attachable, "70000", "0")},
		{"a plugin with its own ipam, which is not used", raw(`{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`),
			`create definition blue: {"capabilities":{"ips":true,"mac":true},"cniVersion":"1.0.0","ipam":{"type":"static"},"name":"default.blue","type":"macvlan"}` + "\n" +
				"status vni 0 Attachable=True/Defined: pods are attached by NetworkAttachmentDefinition blue; this Network hands out the addresses: it uses only routes and dns of the ipam \"whereabouts\" in spec.attachment.config\n" +
				"event Warning IPAMReplaced: pods are attached by NetworkAttachmentDefinition blue; this Network hands out the addresses: it uses only routes and dns of the ipam \"whereabouts\" in spec.attachment.config\n"},
		{"an invalid plugin", raw(`{"type":""}`),
			"status vni 0 Attachable=False/InvalidConfig: spec.attachment.config: has no type, the name of a plugin such as \"macvlan\"\n" +
				"event Warning InvalidConfig: spec.attachment.config: has no type, the name of a plugin such as \"macvlan\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Diff(state(tt.change)).String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestLostIPAM(t *testing.T) {
	for config, want := range map[string]string{
		`{"type":"a"}`:                                                "",
		`{"type":"a","ipam":{}}`:                                      "",
		`{"type":"a","ipam":null}`:                                    "",
		`{"type":"a","ipam":{"type":"static"}}`:                       "",
		`{"type":"a","ipam":{"type":"static","routes":[],"dns":{}}}`:  "",
		`{"type":"a","ipam":{"type":"static","addresses":[]}}`:        "static",
		`{"type":"a","ipam":{"range":"10.0.0.0/24"}}`:                 "static",
		`{"type":"a","ipam":{"type":"dhcp"}}`:                         "dhcp",
		`{"plugins":[{"type":"a","ipam":{"type":"host-local"}}]}`:     "host-local",
		`{"plugins":[{"type":"a"},{"type":"b","ipam":{"type":"c"}}]}`: "",
		`{"plugins":[]}`:                                              "",
		`{"ipam":{"type":"ignored"},"plugins":[{"type":"a"}]}`:        "",
		`null`: "",
	} {
		if want != "" {
			want = fmt.Sprintf("this Network hands out the addresses: it uses only routes and dns of the ipam %q in spec.attachment.config", want)
		}
		if got := state(raw(config)).lostIPAM(); got != want {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
	if got := state().lostIPAM(); got != "" {
		t.Errorf("Overlay: got %q", got)
	}
}

func TestDiffOfWhatItWroteIsEmpty(t *testing.T) {
	s := state(fresh)
	p := Diff(s)
	s.Network.Status, s.VNIs, s.Definition = *p.Status, []*v1.VNI{p.Claim}, p.Create
	if again := Diff(s); !again.Empty() {
		t.Errorf("still to do:\n%s", again)
	}
}

func TestUpdateKeepsWhatOthersAdded(t *testing.T) {
	s := state()
	s.Definition.Annotations = map[string]string{"theirs": "a"}
	s.Definition.Labels["theirs"] = "b"
	s.Definition.Spec = nadv1.NetworkAttachmentDefinitionSpec{}
	if u := Diff(s).Update.Object; u.Annotations["theirs"] != "a" || u.Labels["theirs"] != "b" || u.Spec.Config != blueConfig {
		t.Errorf("got %v", u)
	}
}

func TestUnused(t *testing.T) {
	r := Release{VNI: 7, Network: "u1"}
	live := func(uid types.UID, vni int32) *v1.Network {
		n := &v1.Network{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		n.Status.VNI = vni
		return n
	}
	for _, tt := range []struct {
		name string
		live *v1.Network
		want bool
	}{
		{"gone", nil, true},
		{"recreated", live("u2", 7), true},
		{"has another", live("u1", 8), true},
		{"has it", live("u1", 7), false},
		{"does not say yet", live("u1", 0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Unused(tt.live); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestLongMessagesAreCutBetweenCharacters(t *testing.T) {
	status, _ := WithFailure(state(), strings.Repeat("é", shorten.EventMessage))
	for _, c := range status.Conditions {
		if len(c.Message) > shorten.EventMessage || !utf8.ValidString(c.Message) {
			t.Errorf("%d bytes, valid %v", len(c.Message), utf8.ValidString(c.Message))
		}
	}
}

func TestWithFailureTellsNoNumberThatWasNotClaimed(t *testing.T) {
	status, events := WithFailure(state(fresh), "quota")
	if got, want := statusText(status), "vni 0 Attachable=False/FailedWrite: quota"; got != want || len(events) != 1 {
		t.Errorf("got %s and %v, want %s", got, events, want)
	}
}
