package projection

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var noon = metav1.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Each state of an entry becomes an Address with the same facts.
func TestAddresses(t *testing.T) {
	owner := v1.AddressOwner{Kind: "Pod2", Name: "web"}
	block := &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "blue-10.1.0.0", UID: "b"},
		Spec: v1.AddressBlockSpec{Network: "blue", NetworkUID: "n", CIDR: "10.1.0.0/24", Entries: []v1.AddressEntry{
			{Address: "10.1.0.2", Pod: "web-0", PodUID: "p", Owner: owner, State: v1.AddressBound, Since: noon},
			{Address: "10.1.0.3", Pod: "web-1", Owner: owner, State: v1.AddressReserved, Since: noon},
			{Address: "10.1.0.10", Pod: "db", State: v1.AddressResting, Since: noon},
			{Address: "10.2.0.1", Pod: "not of this AddressBlock", State: v1.AddressBound, Since: noon},
		}},
	}
	network := &v1.Network{ObjectMeta: metav1.ObjectMeta{UID: "n"}, Spec: v1.NetworkSpec{ReuseDelaySeconds: ptr.To[int32](90)}}
	recreated, deleted := network.DeepCopy(), network.DeepCopy()
	recreated.UID, deleted.DeletionTimestamp = "other", &noon
	node := func(pod string, uid types.UID) string { return fmt.Sprintf("node-of-%s-%s", pod, uid) }
	const bound = `
ns/blue-10.1.0.2 0a:58:0a:01:00:02 web-0 p Pod2 web Bound node-of-web-0-p map[samplecrd.k8s.io/network:blue samplecrd.k8s.io/pod2:web]
ns/blue-10.1.0.3 0a:58:0a:01:00:03 web-1  Pod2 web Reserved  map[samplecrd.k8s.io/network:blue samplecrd.k8s.io/pod2:web]`
	const resting = `
ns/blue-10.1.0.10 0a:58:0a:01:00:0a db    Resting  map[samplecrd.k8s.io/network:blue]`
	for _, c := range []struct {
		name string
		of   *v1.Network
		want string
	}{
		{"Network", network, resting + " until 12:01:30" + bound},
		{"no Network", nil, resting + bound},
		{"recreated Network", recreated, resting + bound},
		{"deleted Network", deleted, resting + bound},
	} {
		got := ""
		for _, a := range Addresses(block, c.of, node) {
			got += fmt.Sprintf("\n%s/%s %s %s %s %s %s %s %s %v", a.Namespace, a.Name, a.Spec.MAC, a.Spec.Pod, a.Spec.PodUID, a.Spec.Owner.Kind, a.Spec.Owner.Name, a.Status.State, a.Status.Node, a.Labels)
			if a.Status.Until != nil {
				got += " until " + a.Status.Until.UTC().Format(time.TimeOnly)
			}
		}
		if got != c.want {
			t.Errorf("%s: got%s\nwant%s", c.name, got, c.want)
		}
	}
	block.Spec.CIDR = "10.2.0.0/24"
	if got := Addresses(block, network, node); len(got) > 0 {
		t.Errorf("an AddressBlock whose name is not that of its CIDR has %d Addresses", len(got))
	}
}

func TestName(t *testing.T) {
	for address, want := range map[string]string{"10.1.0.7": "blue-10.1.0.7", "2001:db8::107": "blue-2001-0db8-0000-0000-0000-0000-0000-0107"} {
		if got := Name("blue", netip.MustParseAddr(address)); got != want || strings.Contains(got, ":") {
			t.Errorf("the name of %s is %s, want %s", address, got, want)
		}
	}
}
