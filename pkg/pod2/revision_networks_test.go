package pod2

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// withNetworks returns the state with the networks of another spec. The revisions of the
// first spec are on record.
func withNetworks(t *testing.T, s State, spec string) State {
	t.Helper()
	s.Pod2 = s.Pod2.DeepCopy()
	s.Pod2.Spec.Networks = state(t, spec).Pod2.Spec.Networks
	return s
}

// onRecord applies the writes of a plan to revisions.
func onRecord(t *testing.T, s State) State {
	t.Helper()
	plan := Diff(s)
	if err := apply(&s, Plan{CreateRevision: plan.CreateRevision, ChangeRevisions: plan.ChangeRevisions}); err != nil {
		t.Fatal(err)
	}
	return s
}

// asBefore turns revisions into those of earlier releases: names alone, and no record.
func asBefore(s State) State {
	var before []*appsv1.ControllerRevision
	for _, r := range s.Revisions {
		r = r.DeepCopy()
		r.Data.Raw = withoutDetails(r.Data.Raw)
		delete(r.Annotations, v1.RevisionNetworksAnnotation)
		if name := "web-" + r.Labels[v1.PodTemplateHashLabel]; r.Name == s.Pod2.Status.CurrentRevision {
			r.Name, s.Pod2.Status.CurrentRevision = name, name
		} else {
			r.Name = name
		}
		before = append(before, r)
	}
	s.Revisions = before
	return s
}

func requestsMade(s State) string {
	var made []string
	for _, c := range Diff(s).Create {
		made = append(made, c.Name+" "+c.Pod().Annotations[v1.NetworksAnnotation])
	}
	return strings.Join(made, "\n")
}

// A replica that a partition or a pause holds back keeps the interface and the address of
// its revision, even if the spec has others now.
func TestHeldBackReplicasKeepInterfaceAndAddress(t *testing.T) {
	for _, hold := range []string{"partition=2", "paused"} {
		t.Run(hold, func(t *testing.T) {
			s := state(t, "replicas=2 current=spec networks=blue@eth0=10.0.0.8|10.0.0.9,green "+hold, "web-1")
			s = onRecord(t, withNetworks(t, s, "networks=blue@data0=10.0.0.18|10.0.0.19,green"))
			if got, want := requestsMade(s), "web-0 blue@eth0=10.0.0.8, green"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestRevisionsOfInterfacesAndAddresses(t *testing.T) {
	hash := RevisionHash(state(t, "networks=blue,green").Pod2)
	for _, tt := range []struct {
		name, first, then string
		want              string
	}{
		{"an added interface", "networks=blue,green", "networks=blue@eth0,green", "create revision 2"},
		{"a removed interface", "networks=blue@eth0,green", "networks=blue,green", "create revision 2"},
		{"another address", "networks=blue=10.0.0.8,green", "networks=blue=10.0.0.9,green", "create revision 2"},
		{"the same in another order", "networks=blue=10.0.0.8,green@eth0", "networks=green@eth0,blue=10.0.0.8", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, "replicas=1 "+tt.first, "web-0")
			s.Revisions = s.Revisions[1:]
			s = withNetworks(t, s, tt.then)
			got, _, _ := strings.Cut(revisionLines(s), " web-")
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if r := Diff(s).CreateRevision; r != nil && r.Labels[v1.PodTemplateHashLabel] != hash {
				t.Errorf("another hash on pods: %s", r.Labels[v1.PodTemplateHashLabel])
			}
			s = onRecord(t, s)
			if got := revisionLines(s); got != "" {
				t.Errorf("once the revision is on record: %s", got)
			}
		})
	}
}

// A longer list of addresses replaces only the replicas that get one of the new
// addresses.
func TestOnlyReplicasWithAnotherRequestAreReplaced(t *testing.T) {
	s := state(t, "replicas=3 networks=blue@eth0=10.0.0.7|10.0.0.8", "web-0", "web-1", "web-2")
	s = onRecord(t, withNetworks(t, s, "networks=blue@eth0=10.0.0.7|10.0.0.8|10.0.0.9"))
	if got, want := actions(s), `delete web-2 (uid u-2): request for addresses changed from "blue@eth0" to "blue@eth0=10.0.0.9"`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A change that keeps a replica's request is made in place.
func TestInPlaceBesideOtherAddresses(t *testing.T) {
	s := state(t, "replicas=1 inplace networks=blue=10.0.0.7|10.0.0.8", "web-0 old")
	s.Revisions[0] = oldRevision(withNetworks(t, s, "networks=blue=10.0.0.7|10.0.0.9").Pod2)
	if got, want := changes(s), "update web-0 in place (uid u-0): image of app"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The previous release wrote no interfaces and addresses into revisions. Its revisions
// get those of the spec when they are first seen, and no pod is replaced.
func TestUpgradeFromRevisionsOfNames(t *testing.T) {
	for _, networks := range []string{"blue,green", "blue@eth0,green", "blue=10.0.0.8|10.0.0.9,green"} {
		t.Run(networks, func(t *testing.T) {
			s := asBefore(state(t, "replicas=2 current=spec networks="+networks, "web-0", "web-1"))
			plan := Diff(s)
			want := fmt.Sprintf("change revision web-old: number 1\nchange revision %s: number 1\n", s.Revisions[1].Name)
			if got, _, _ := strings.Cut(plan.String(), "status"); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			s = onRecord(t, s)
			s.Pod2.Status = *Diff(s).Status
			if plan := Diff(s); !plan.Empty() {
				t.Errorf("after these writes\n%s", plan)
			}
			for _, r := range History(s.Pod2, s.Revisions) {
				if got := fmt.Sprint(r.Content.Networks); got != fmt.Sprint(ContentOf(s.Pod2).Networks) {
					t.Errorf("%s has %s", r.Object.Name, got)
				}
			}
			s = withNetworks(t, s, "networks=blue@other,green")
			if r := Diff(s).CreateRevision; r == nil || r.Revision != 2 {
				t.Errorf("another interface: %v", r)
			}
			s = withNetworks(t, onRecord(t, s), "networks="+networks)
			if got, want := revisionLines(s), "change revision web-HASH: number 3"; got != want {
				t.Errorf("back: got %s, want %s", got, want)
			}
		})
	}
}

// Recorded Networks are not read from the spec again.
func TestRecordedNetworks(t *testing.T) {
	s := asBefore(state(t, "replicas=2 partition=2 current=spec networks=blue@eth0", "web-0"))
	s = withNetworks(t, onRecord(t, s), "networks=blue@data0")
	if got := requestsMade(onRecord(t, s)); got != "web-1 blue@eth0" {
		t.Errorf("got %s", got)
	}
	s.Revisions[1] = s.Revisions[1].DeepCopy()
	s.Revisions[1].Annotations[v1.RevisionNetworksAnnotation] = `["red"]` // someone wrote it
	if got := revisionLines(s); got != "change revision web-HASH: number 1" {
		t.Errorf("of other Networks: %s", got)
	}
}

// An object has room for 256 KiB of annotations. A revision without a record uses the
// addresses of the spec, as before.
func TestNetworksTooLargeToBeRecorded(t *testing.T) {
	s := state(t, "replicas=0 networks=blue")
	for i := range maxNetworksRecord / 10 {
		s.Pod2.Spec.Networks[0].Addresses = append(s.Pod2.Spec.Networks[0].Addresses, v1.Address(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))
	}
	s = asBefore(s)
	if got := revisionLines(s); got != "" {
		t.Errorf("got %s", got)
	}
}

// Revisions that differ only in addresses share a hash: pods with it keep the newest, and
// the others are normal history.
func TestHistoryLimitOfAddresses(t *testing.T) {
	s := state(t, "replicas=1 networks=blue=10.0.0.1", "web-0")
	s.Pod2.Spec.RevisionHistoryLimit = new(int32)
	s.Revisions = s.Revisions[1:]
	for _, address := range []string{"10.0.0.2", "10.0.0.3"} {
		s = onRecord(t, withNetworks(t, s, "networks=blue="+address))
	}
	s.Pods[0].Labels[v1.PodTemplateHashLabel] = s.Revisions[0].Labels[v1.PodTemplateHashLabel]
	want := ""
	for _, r := range s.Revisions[:2] {
		want += fmt.Sprintf("delete revision %s (uid %s): beyond revisionHistoryLimit\n", r.Name, r.UID)
	}
	if got := revisionLines(s) + "\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
