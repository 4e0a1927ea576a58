package dns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func actions(s State) string { return lines(s, "withdraw", "confirm", "delete", "create", "update") }

func TestServices(t *testing.T) {
	runDiff(t, []diffTest{
		{"one for each Network", "networks=green,blue", nil, `
			create Service web-blue
			create Service web-green`},
		{"for a Network of the template", "template=blue", nil, `
			create Service web-blue`},
		{"none without a Network", "", nil, ""},
		{"unchanged", "networks=blue", []string{"service web-blue"}, ""},
		{"repaired", "networks=blue", []string{"service web-blue selector quiet unlabelled ports vip"}, `
			update Service web-blue (version 7): labels, cluster IP, selector, ports, publishNotReadyAddresses`},
		{"terminating", "networks=blue", []string{"service web-blue going"}, ""},
		{"of a former Network", "networks=blue", []string{"service web-blue", "service web-green", "slice web-green-0 web-0=10.1.0.2", "web-0",
			"service web-red going", "slice web-red-0 web-0=10.2.0.2 going"}, `
			delete slice web-green-0 (uid u-web-green-0): no replica belongs in it
			delete Service web-green (uid u-web-green): no replica is on its Network`},
		{"of a former Network, with a replica still on it", "networks=blue", []string{"service web-blue", "service web-green", "slice web-green-0 web-0=10.1.0.2 web-1=10.1.0.3",
			"web-0 green=10.1.0.2", "web-1 green=10.1.0.3 over"}, `
			update slice web-green-0 (version 7): -web-1`},
		{"of a former Network, with a replica possibly still on it", "networks=blue", []string{"service web-blue", "service web-green", "slice web-green-0 web-0=10.1.0.2"}, `
			confirm web-0 (u-web-0) is gone
			delete slice web-green-0 (uid u-web-green-0): no replica belongs in it
			delete Service web-green (uid u-web-green): no replica is on its Network`},
		{"none for an address without a DNS name", "networks=blue", []string{"service web-blue", "web-0 green=127.0.0.1"}, ""},
		{"orphaned", "networks=blue", []string{"service web-blue orphan quiet", "web-0 blue=10.0.0.2"}, `
			update Service web-blue (version 7): owner reference, publishNotReadyAddresses`},
		{"orphaned, of a former Network, with a replica still on it", "", []string{"service web-blue orphan", "web-0 blue=10.0.0.2", "slice web-blue-0 web-0=10.0.0.2"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it
			update Service web-blue (version 7): owner reference`},
		{"orphaned, of a former Network", "", []string{"service web-blue orphan", "slice web-blue-0 orphan web-0=10.0.0.2"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it`},
		{"another owner's, of a former Network", "", []string{"service web-green bare", "slice web-green-0 bare web-0=10.1.0.2"}, ""},
		{"of a Pod2 that is being deleted", "networks=blue going", []string{"service web-green", "slice web-green-0 web-0=10.1.0.2", "web-0 blue=10.0.0.2"}, ""},
	}, actions)
}

func TestSlices(t *testing.T) {
	many := []string{"service web-blue"}
	for i := range 205 {
		many = append(many, fmt.Sprintf("web-%d blue=10.0.1.%d", i, i))
	}
	runDiff(t, []diffTest{
		{"of replicas that publish", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2", "web-1 blue=10.0.0.3 notready", "web-2 blue=10.0.0.4 terminating"}, `
			create slice web-blue-0: +web-0 +web-1 +web-2`},
		{"with the Service", "networks=blue", []string{"web-0 blue=10.0.0.2"}, `
			create Service web-blue`},
		{"not of a pod that another client named", "networks=blue", []string{"service web-blue", "slice web-blue-0 web-0=10.0.0.2 other=10.0.0.8", "web-0 blue=10.0.0.2"}, `
			update slice web-blue-0 (version 7): -other`},
		{"of each family", "networks=blue,green", []string{"service web-blue", "service web-green", "web-0 blue=10.0.0.2 green=fd00::2", "web-1 blue=fd00::3"}, `
			create slice web-blue-0: +web-0
			create slice web-blue-0-v6: +web-1
			create slice web-green-0-v6: +web-0`},
		{"not of other owners", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2 bare", "web-1 blue=10.0.0.3 earlier", "web-2 blue=10.0.0.4 gated",
			"web-3 blue=10.0.0.5 over", "web-4 of=StatefulSet/web blue=10.0.0.6", "web-5", "web-06 blue=10.0.0.7", "other blue=10.0.0.8"}, ""},
		{"of a replica to be adopted", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2 orphan", "slice web-blue-0 web-0=10.0.0.2"}, ""},
		{"orphaned", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2", "slice web-blue-0 orphan", "slice web-blue-7 web-700=10.0.0.3 orphan"}, `
			update slice web-blue-0 (version 7): owner reference
			update slice web-blue-7 (version 7): owner reference`},
		{"orphaned, of a Service that is gone", "networks=blue", []string{"web-0 blue=10.0.0.2", "slice web-blue-0 web-0=10.0.0.2 orphan"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it
			create Service web-blue`},
		{"orphaned, of another owner's Service", "networks=blue", []string{"service web-blue bare", "web-0 blue=10.0.0.2", "slice web-blue-0 web-0=10.0.0.2 orphan"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it`},
		{"not for a name that is no DNS label", "networks=blue name=" + strings.Repeat("w", 55), []string{"service " + strings.Repeat("w", 55) + "-blue", strings.Repeat("w", 55) + "-1000000 blue=10.0.0.2",
			strings.Repeat("w", 55) + "-10000000 blue=10.0.0.3"}, `
			create slice ` + strings.Repeat("w", 55) + `-blue-10000: +` + strings.Repeat("w", 55) + `-1000000`},
		{"not of addresses that slices refuse", "networks=blue", []string{"service web-blue", "web-0 blue=127.0.0.1", "web-1 blue=169.254.0.1", "web-2 blue=0.0.0.0", "web-3 blue=ff02::1",
			"web-4 blue=fe80::1", "web-5 blue=10.0.0.2"}, `
			create slice web-blue-0: +web-5`},
		{"by ordinal", "networks=blue", append(many, "web-100000 blue=10.0.0.9"), `
			create slice web-blue-0: +web-0 +web-1 +web-2 +web-3 and 96 others
			create slice web-blue-1: +web-100 +web-101 +web-102 +web-103 and 96 others
			create slice web-blue-2: +web-200 +web-201 +web-202 +web-203 and 1 others
			create slice web-blue-1000: +web-100000`},
		{"a change of one pod changes one slice", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2", "web-100 blue=10.0.0.3 notready",
			"slice web-blue-0 web-0=10.0.0.2", "slice web-blue-1 web-100=10.0.0.3"}, `
			update slice web-blue-1 (version 7): ~web-100`},
		{"added, changed, terminated", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.9", "web-1 blue=10.0.0.3 uid=other", "web-2 blue=10.0.0.4 over", "web-3 blue=10.0.0.5 node=n1",
			"web-4 blue=10.0.0.6", "slice web-blue-0 web-0=10.0.0.2 web-1=10.0.0.3 web-2=10.0.0.4 web-3=10.0.0.5"}, `
			update slice web-blue-0 (version 7): ~web-0 ~web-1 ~web-3 +web-4 and 1 others`},
		{"removed only if it is gone", "networks=blue", []string{"service web-blue", "web-1 blue=10.0.0.3", "slice web-blue-0 web-0=10.0.0.2 web-1=10.0.0.3", "slice web-blue-1 web-100=10.0.0.4"}, `
			confirm web-0 (u-web-0) is gone
			confirm web-100 (u-web-100) is gone
			delete slice web-blue-1 (uid u-web-blue-1): no replica belongs in it
			update slice web-blue-0 (version 7): -web-0`},
		{"repaired", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2", "web-1 blue=10.0.0.3", "slice web-blue-0 web-1=10.0.0.3 web-0=10.0.0.2 ports unlabelled"}, `
			update slice web-blue-0 (version 7): labels, ports, order`},
		{"of another type is deleted", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2", "slice web-blue-0 web-0=10.0.0.2 fqdn"}, `
			delete slice web-blue-0 (uid u-web-blue-0): no replica belongs in it`},
		{"not wanted", "networks=blue", []string{"service web-blue", "web-0", "slice web-blue-0-v7 web-0=10.0.0.2 unlabelled"}, `
			delete slice web-blue-0-v7 (uid u-web-blue-0-v7): no replica belongs in it`},
		{"terminating", "networks=blue", []string{"service web-blue", "web-0 blue=10.0.0.2 notready", "slice web-blue-0 web-0=10.0.0.2 going", "slice web-blue-1 web-100=10.0.0.2 going"}, `
			confirm web-100 (u-web-100) is gone
			update slice web-blue-0 (version 7): ~web-0`},
		{"only a terminating one", "networks=blue", []string{"service web-blue", "slice web-blue-1 web-100=10.0.0.2 going"}, ""},
	}, actions)
}

func TestNamesThatAreTaken(t *testing.T) {
	runDiff(t, []diffTest{
		{"Service without an owner", "networks=blue,green", []string{"service web-blue bare", "web-0 blue=10.0.0.2 green=10.1.0.2", "slice web-blue-0 web-0=10.0.0.2 web-1=10.0.0.3"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it
			create Service web-green
			status DNSPublished=False/NameTaken(Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue)
			event Warning NameTaken: Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue`},
		{"Service of another Pod2", "networks=blue", []string{"service web-blue of=Pod2/web-b"}, `
			status DNSPublished=False/NameTaken(Service web-blue already exists and is owned by Pod2 web-b: delete it so that replicas can have DNS names on Network blue)
			event Warning NameTaken: Service web-blue already exists and is owned by Pod2 web-b: delete it so that replicas can have DNS names on Network blue`},
		{"orphaned Service with another Pod2's label", "networks=blue", []string{"service web-blue orphan unlabelled"}, `
			status DNSPublished=False/NameTaken(Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue)
			event Warning NameTaken: Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue`},
		{"Service of an earlier Pod2", "networks=blue", []string{"service web-blue earlier"}, `
			status DNSPublished=False/WaitingForDeletion(Service web-blue of an earlier Pod2 web still exists)`},
		{"slice", "networks=blue", []string{"service web-blue", "slice web-blue-0 bare", "web-0 blue=10.0.0.2", "web-100 blue=10.0.0.3"}, `
			create slice web-blue-1: +web-100
			status DNSPublished=False/NameTaken(EndpointSlice web-blue-0 already exists and has no controller: delete it so that replicas can have DNS names on Network blue)
			event Warning NameTaken: EndpointSlice web-blue-0 already exists and has no controller: delete it so that replicas can have DNS names on Network blue`},
		{"several", "networks=blue,green", []string{"service web-blue bare", "service web-green of=Gateway/g"}, `
			status DNSPublished=False/NameTaken(Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue; Service web-green already exists and is owned by Gateway g: delete it so that replicas can have DNS names on Network green)
			event Warning NameTaken: Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue; Service web-green already exists and is owned by Gateway g: delete it so that replicas can have DNS names on Network green`},
		{"too long", "networks=blue,green-" + strings.Repeat("x", 54), []string{"service web-blue"}, `
			status DNSPublished=False/InvalidServiceName(Network green-` + strings.Repeat("x", 54) + ` needs a Service with the name web-green-` + strings.Repeat("x", 54) + `, which is invalid (must be no more than 63 characters): replicas have no DNS names there. Use a shorter name for the Pod2 or the Network)
			event Warning InvalidServiceName: Network green-` + strings.Repeat("x", 54) + ` needs a Service with the name web-green-` + strings.Repeat("x", 54) + `, which is invalid (must be no more than 63 characters): replicas have no DNS names there. Use a shorter name for the Pod2 or the Network`},
	}, func(s State) string { return strings.TrimSpace(Diff(s).String()) })
}

// A slice never exists beside a Service that the Pod2 does not own, or that has ports. It
// is deleted before any other write, and a live read of pods does not change that.
func TestSlicesStandBesideServicesOfOurs(t *testing.T) {
	const slice, withdrawn = "slice web-blue-0 web-0=10.0.0.2", `
			withdraw slice web-blue-0 (uid u-web-blue-0): the Pod2 owns no Service without ports for it
			`
	pod := "web-0 blue=10.0.0.2"
	runDiff(t, []diffTest{
		{"owned", "networks=blue", []string{"service web-blue", slice, pod}, ""},
		{"with ports", "networks=blue", []string{"service web-blue ports", slice, pod}, withdrawn + `update Service web-blue (version 7): ports`},
		{"with ports, and its pod was not seen", "networks=blue", []string{"service web-blue ports", slice}, withdrawn + `update Service web-blue (version 7): ports`},
		{"with ports, and another pod was not seen", "networks=blue,green", []string{"service web-blue ports", slice, pod, "service web-green", "slice web-green-0 web-9=10.1.0.2"}, withdrawn + `confirm web-9 (u-web-9) is gone
			delete slice web-green-0 (uid u-web-green-0): no replica belongs in it
			update Service web-blue (version 7): ports`},
		{"without the Pod2's label", "networks=blue", []string{"service web-blue unlabelled", slice, pod}, withdrawn + `update Service web-blue (version 7): labels`},
		{"without its owner", "networks=blue", []string{"service web-blue orphan", slice, pod}, withdrawn + `update Service web-blue (version 7): owner reference`},
		{"without its owner, with ports", "networks=blue", []string{"service web-blue orphan ports", slice, pod}, withdrawn + `update Service web-blue (version 7): owner reference, ports`},
		{"terminating", "networks=blue", []string{"service web-blue going", slice, pod}, withdrawn},
		{"gone", "networks=blue", []string{slice, pod}, withdrawn + `create Service web-blue`},
		{"another owner's", "networks=blue", []string{"service web-blue of=Gateway/g", slice, pod}, withdrawn},
		{"with ports, the slice terminating", "networks=blue", []string{"service web-blue ports", slice + " going", pod}, `
			update Service web-blue (version 7): ports`},
		{"with ports, of a former Network", "", []string{"service web-blue ports", slice}, withdrawn + `delete Service web-blue (uid u-web-blue): no replica is on its Network`},
		{"with ports, of a Pod2 that is being deleted", "networks=blue going", []string{"service web-blue ports", slice, pod}, withdrawn},
		{"with ports, the slice orphaned", "networks=blue", []string{"service web-blue ports", slice + " orphan", pod}, withdrawn + `update Service web-blue (version 7): ports`},
		{"owned, of a former Network, the slice orphaned", "", []string{"service web-blue", slice + " orphan"}, `
			delete slice web-blue-0 (uid u-web-blue-0): no replica belongs in it
			delete Service web-blue (uid u-web-blue): no replica is on its Network`},
		{"of a Pod2 that is gone", "gone", []string{"service web-blue orphan", slice + " orphan", "slice web-blue-1", "slice web-blue-2 bare", "slice web-blue-3 orphan going"}, `
			withdraw slice web-blue-0 (uid u-web-blue-0): its Pod2 no longer exists`},
	}, actions)
}

func TestPortsOfAServiceAreTold(t *testing.T) {
	runDiff(t, []diffTest{
		{"ports", "networks=blue said", []string{"service web-blue ports", "slice web-blue-0 web-0=10.0.0.2", "web-0 blue=10.0.0.2"}, `
			status DNSPublished=False/ServiceHasPorts(Service web-blue has ports, which let other users forward traffic to any address of Network blue: the controller removes them, and replicas have no DNS names there until then)
			event Warning ServiceHasPorts: Service web-blue has ports, which let other users forward traffic to any address of Network blue: the controller removes them, and replicas have no DNS names there until then`},
		{"none yet", "networks=blue", []string{"web-0 blue=10.0.0.2"}, ""},
	}, func(s State) string { s.Pod2.Status.Conditions = nil; return lines(s, "status", "event") })
}

// Data of other writers stays: owners, labels and annotations.
func TestWhatIsAdopted(t *testing.T) {
	s := state(t, "networks=blue", "service web-blue orphan", "service web-green", "slice web-green-0 orphan web-9=10.0.0.2", "web-0 green=10.0.0.3")
	former := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "team", UID: "u-team"}
	demoted := metav1.OwnerReference{APIVersion: "samplecrd.k8s.io/v1", Kind: "Pod2", Name: "web", UID: uid}
	s.Services[0].OwnerReferences = []metav1.OwnerReference{demoted, former}
	plan := Diff(s)
	want := s.Services[0].DeepCopy()
	want.OwnerReferences = []metav1.OwnerReference{former, *metav1.NewControllerRef(s.Pod2, pod2Kind)}
	if got := plan.Services[0].Update.Object; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	slice := s.Slices[0].DeepCopy()
	slice.OwnerReferences = want.OwnerReferences[1:]
	if got := plan.Services[1].UpdateSlices[0].Object; !reflect.DeepEqual(got, slice) {
		t.Errorf("got  %+v\nwant %+v", got, slice)
	}
}

// TestWhatIsMade checks complete Services and slices.
func TestWhatIsMade(t *testing.T) {
	pods := []string{"web-0 blue=10.0.0.2 node=n1", "web-1 blue=10.0.0.3 notready terminating"}
	made := Diff(state(t, "networks=blue", append(pods, "service web-blue")...)).Services[0]
	made.Create = Diff(state(t, "networks=blue", pods...)).Services[0].Create
	for _, tt := range []struct {
		name, want string
		made       any
	}{
		{"Service", `{"metadata":{"name":"web-blue","namespace":"default",` +
			`"labels":{"samplecrd.k8s.io/network":"blue","samplecrd.k8s.io/pod2":"web"},` +
			`"ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","name":"web","uid":"u-web","controller":true,"blockOwnerDeletion":true}]},` +
			`"spec":{"clusterIP":"None","clusterIPs":["None"],"type":"ClusterIP","publishNotReadyAddresses":true},"status":{"loadBalancer":{}}}`, made.Create},
		{"slice", `{"metadata":{"name":"web-blue-0","namespace":"default",` +
			`"labels":{"endpointslice.kubernetes.io/managed-by":"pod2-controller","kubernetes.io/service-name":"web-blue",` +
			`"samplecrd.k8s.io/network":"blue","samplecrd.k8s.io/pod2":"web","service.kubernetes.io/headless":""},` +
			`"ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","name":"web","uid":"u-web","controller":true,"blockOwnerDeletion":true}]},` +
			`"addressType":"IPv4","endpoints":[` +
			`{"addresses":["10.0.0.2"],"conditions":{"ready":true,"serving":true,"terminating":false},"hostname":"web-0",` +
			`"targetRef":{"kind":"Pod","namespace":"default","name":"web-0","uid":"u-web-0"},"nodeName":"n1"},` +
			`{"addresses":["10.0.0.3"],"conditions":{"ready":true,"serving":false,"terminating":true},"hostname":"web-1",` +
			`"targetRef":{"kind":"Pod","namespace":"default","name":"web-1","uid":"u-web-1"}}],"ports":null}`, made.CreateSlices[0]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.made)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// Each field of an endpoint counts, also one of a later Kubernetes.
func TestEachFieldOfAnEndpointCounts(t *testing.T) {
	fill := func(e *discoveryv1.Endpoint) {
		e.Addresses, e.Hostname, e.NodeName, e.TargetRef = []string{"10.0.0.2"}, ptr.To("web-0"), ptr.To("n1"), &corev1.ObjectReference{Name: "web-0"}
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(true)}
		e.DeprecatedTopology, e.Zone, e.Hints = map[string]string{"a": "b"}, ptr.To("z"), &discoveryv1.EndpointHints{}
	}
	var full discoveryv1.Endpoint
	fill(&full)
	for i := range reflect.TypeOf(full).NumField() {
		field := reflect.TypeOf(full).Field(i)
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("this test sets no %s", field.Name)
		}
		var one discoveryv1.Endpoint
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(full).Field(i))
		if sameEndpoint(one, discoveryv1.Endpoint{}) || sameEndpoint(discoveryv1.Endpoint{}, one) {
			t.Errorf("%s does not count", field.Name)
		}
	}
	var again discoveryv1.Endpoint
	if fill(&again); !sameEndpoint(full, again) {
		t.Error("equal endpoints differ")
	}
}
