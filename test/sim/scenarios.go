package sim

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/apiserver"
)

// Scenario is a sequence of actions of users.
type Scenario struct {
	Name string
	// Given are objects that an earlier, undisturbed run of the program handles first.
	Given []string
	// Acts follow one another, each after the cluster has settled.
	Acts []Act
	// Small marks a scenario whose pairs of crashes are few enough for every run of the
	// tests.
	Small bool
	// Long marks a scenario that has too many crashes for every run of the tests: the
	// program is killed before and after every second write. That still leaves every state
	// that exists between two writes.
	Long bool
}

// Act is an action of a user.
type Act func(*World)

// Settle is the time that an act gets. It is longer than the longest retry of a failed
// sync, the reuse delay of an address, and the time for which the result of a live read is
// trusted.
const Settle = 5 * time.Minute

// Do performs the acts.
func (sc Scenario) Do(w *World) {
	for _, act := range sc.Acts {
		act(w)
		time.Sleep(Settle)
	}
}

func network(name, spec string) string {
	return fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: %s}\nspec: {%s}", name, spec)
}

func pod2(spec string) string {
	return fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\nspec: {template: {spec: {%s}}, %s}", container, spec)
}

func create(manifests ...string) Act { return func(w *World) { w.Create(manifests...) } }

func patch(resource, name, body string) Act {
	return func(w *World) { w.Patch(resource, name, body) }
}

func remove(resource, name string) Act { return func(w *World) { w.Delete(resource, name, "") } }

func orphan(resource, name string) Act {
	return func(w *World) { w.Delete(resource, name, metav1.DeletePropagationOrphan) }
}

func restored(kinds ...string) Act { return func(w *World) { w.Restore(kinds...) } }

// image changes the template's image, in place if the spec allows it.
func image(name string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q,"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}}}`, name)
}

// wanted requests addresses for the first two replicas.
func wanted(first, second string) string {
	return fmt.Sprintf(`{"spec":{"networks":[{"name":"blue","addresses":[%q,%q]}]}}`, first, second)
}

func scale(n int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, n) }

var blue = network("blue", "cidr: 10.0.0.0/24")

const onBlue = "networks: [{name: blue}]"

// claims are volumeClaimTemplates of a Pod2 or a StatefulSet. Volumes of their class can
// grow.
func claims(size string) string {
	return ", volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}}]"
}

const (
	fast          = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: example.com/fast\nallowVolumeExpansion: true"
	keepsClaims   = `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`
	deletesClaims = ", persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}"
	statefulSet   = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec: {replicas: 2, serviceName: web, selector: {matchLabels: {app: web}}, " +
		"template: {metadata: {labels: {app: web, samplecrd.k8s.io/managed: \"true\"}, annotations: {samplecrd.k8s.io/networks: blue}}, " +
		"spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], " + container + "}}"
	podImage  = `{"spec":{"containers":[{"name":"app","image":%q,"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}`
	container = "containers: [{name: app, image: one, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]"
)

// Scenarios are all scenarios: usual actions with each kind, and actions during a fault.
var Scenarios = slices.Concat(usual, faultScenarios)

var usual = []Scenario{
	{Name: "create", Acts: []Act{create(blue, network("green", "cidr: 10.0.0.0/24"), pod2("replicas: 2, networks: [{name: blue}, {name: green}]"))}},
	{Name: "scale up and down", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{
		patch("pod2s", "web", scale(3)), patch("pod2s", "web", scale(1)),
	}},
	{Name: "roll with surge", Given: []string{blue, fast, pod2("replicas: 2, " + onBlue + claims("1Gi") +
		", updateStrategy: {type: RollingUpdate, inPlace: Never, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")},
		Acts: []Act{patch("pod2s", "web", image("two"))}},
	{Name: "young replicas", Given: []string{blue, pod2("replicas: 2, minReadySeconds: 20, " + onBlue)}, Acts: []Act{
		func(w *World) { // the second update finds replicas that are Ready, but too young to be available
			w.Patch("pod2s", "web", image("two"))
			time.Sleep(10 * time.Second)
			w.Patch("pod2s", "web", image("three"))
		},
	}},
	{Name: "exchange addresses", Given: []string{network("blue", "cidr: 10.0.0.0/24, reuseDelaySeconds: 1"),
		pod2("replicas: 2, networks: [{name: blue, interface: net7, addresses: [10.0.0.10, 10.0.0.11]}], updateStrategy: {rollingUpdate: {maxUnavailable: 2}}")}, Acts: []Act{
		patch("pod2s", "web", wanted("10.0.0.11", "10.0.0.10")),
	}},
	{Name: "update in place", Given: []string{blue, pod2("replicas: 2, " + onBlue)}, Acts: []Act{
		patch("pod2s", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"two","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}}]}}}}`),
	}},
	{Name: "change a Network", Given: []string{network("blue", "cidr: 10.0.0.0/30, reuseDelaySeconds: 1"), pod2("replicas: 2, " + onBlue)}, Acts: []Act{
		patch("networks", "blue", `{"spec":{"cidr":"10.0.0.0/28","exclude":["10.0.0.4-10.0.0.6"]}}`),
	}, Small: true},
	{Name: "delete a Network", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{
		remove("networks", "blue"), remove("pod2s", "web"),
	}, Small: true},
	{Name: "delete and recreate", Given: []string{network("blue", "cidr: 10.0.0.0/24, reuseDelaySeconds: 3600"), pod2("replicas: 2, " + onBlue)}, Acts: []Act{
		func(w *World) {
			w.Delete("pod2s", "web", metav1.DeletePropagationBackground)
			w.Create(pod2("replicas: 2, " + onBlue))
		},
	}},
	{Name: "exhaustion", Given: []string{network("blue", "cidr: 10.0.0.0/30, reuseDelaySeconds: 1"), pod2("replicas: 1, " + onBlue)}, Acts: []Act{
		patch("pod2s", "web", scale(3)),
		patch("networks", "blue", `{"spec":{"cidr":"10.0.0.0/29"}}`),
	}},
	{Name: "any pod", Given: []string{network("blue", "cidr: 10.0.0.0/29, reuseDelaySeconds: 1"),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: bare, labels: {samplecrd.k8s.io/managed: \"true\"}, annotations: {samplecrd.k8s.io/networks: blue}}\n" +
			"spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], containers: [{name: app, image: one}]}"}, Acts: []Act{
		create(pod2("replicas: 5, " + onBlue)), // one address too few
		remove("pods", "bare"),
	}},
	{Name: "PVCs", Given: []string{blue, fast}, Acts: []Act{
		create(pod2("replicas: 1, " + onBlue + claims("1Gi") + deletesClaims)),
		patch("pod2s", "web", scale(2)), patch("pod2s", "web", scale(1)),
		remove("pod2s", "web"),
	}},
	{Name: "PVCs of an earlier Pod2", Given: []string{blue, fast, pod2("replicas: 1, " + onBlue + claims("1Gi"))}, Acts: []Act{
		remove("pod2s", "web"),
		create(pod2("replicas: 1, " + onBlue + claims("2Gi") + deletesClaims)),
		patch("pod2s", "web", keepsClaims),
	}},
	{Name: "orphans", Given: []string{blue, pod2("replicas: 2, " + onBlue)}, Acts: []Act{
		orphan("pod2s", "web"), remove("pods", "web-1"), create(pod2("replicas: 2, " + onBlue)),
		func(w *World) { w.Recreate("pod2s", "web", metav1.DeletePropagationOrphan) },
	}},
	{Name: "a user's Services", Given: []string{blue, pod2("replicas: 2, " + onBlue)}, Acts: []Act{
		patch("services", "web-blue", `{"spec":{"ports":[{"port":80}]}}`),
		patch("services", "web-blue", `{"metadata":{"ownerReferences":null}}`),
		remove("services", "web-blue"),
	}},
	{Name: "adopt a StatefulSet's pods", Given: []string{blue, fast, statefulSet + claims("1Gi") + "}"}, Acts: []Act{
		orphan("statefulsets", "web"), create(pod2("replicas: 2, serviceName: web, " + onBlue + claims("1Gi"))),
	}},
	{Name: "pods of another owner", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{
		func(w *World) { // one pod that the watch shows, and one that it does not
			w.CreateOwned("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: other}",
				"apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, labels: {samplecrd.k8s.io/managed: \"true\"}}\nspec: {"+container+"}",
				"apiVersion: v1\nkind: Pod\nmetadata: {name: web-2}\nspec: {"+container+"}")
			w.Patch("pod2s", "web", scale(3))
			time.Sleep(2 * time.Minute) // the controller keeps trying the name that the watch does not show
			w.Expect("pod2s/web", "pod web-1 already exists and is owned by ReplicaSet other", "pod web-2 already exists and is owned by ReplicaSet other")
			w.Delete("replicasets", "other", metav1.DeletePropagationBackground)
		},
	}},
	{Name: "attachments", Given: []string{blue, "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: red}\nspec: {config: \"{}\"}"}, Acts: []Act{
		create(network("red", "cidr: 10.0.0.0/24")), // its name is taken
		remove("network-attachment-definitions", "red"),
		patch("network-attachment-definitions", "blue", `{"spec":{"config":"{}"}}`),
		remove("network-attachment-definitions", "blue"),
		func(w *World) { w.Delete("vnis", w.VNI("blue"), "") },
		remove("networks", "blue"),
	}},
	{Name: "restore", Given: []string{blue,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: bare, labels: {samplecrd.k8s.io/managed: \"true\"}, annotations: {samplecrd.k8s.io/networks: blue}}\n" +
			"spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], containers: [{name: app, image: one}]}"}, Acts: []Act{
		create(pod2("replicas: 2, " + onBlue)), // the pod bare has the lowest address
		restored("pods", "addressblocks", "controllerrevisions", "networks", "pod2s"),
		restored("networks", "addressblocks", "pod2s"),
	}},
	{Name: "CronTab", Given: []string{blue}, Acts: []Act{
		create("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: report, finalizers: [finalizer.stable.example.com]}\n" +
			"spec: {cronSpec: \"7 0 1 1 *\", image: report, replicas: 2, networks: [{name: blue}]}"),
		patch("crontabs", "report", `{"spec":{"image":"other"}}`),
		remove("crontabs", "report"),
	}},
	{Name: "Sidecar", Acts: []Act{
		func(w *World) {
			w.Admit(apiserver.Rule{On: []string{"POST pods"}, Mutate: w.addSidecars, Refuse: apiserver.Policy("a Sidecar is not Ready", w.lacksSidecar)})
			w.Create(blue, "apiVersion: samplecrd.k8s.io/v1\nkind: Sidecar\nmetadata: {name: mesh}\nspec: {selector: {samplecrd.k8s.io/pod2: web}, containers: [{name: mesh, image: one}]}")
		},
		create(pod2("replicas: 2, " + onBlue)),
		patch("sidecars", "mesh", `{"spec":{"containers":[{"name":"mesh","image":"two"}]}}`),
		remove("pods", "web-1"),
		patch("pod2s", "web", image("two")),
	}},
}
