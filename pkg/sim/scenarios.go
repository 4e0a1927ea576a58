package sim

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scenario is what users do, in the order in which they do it.
type Scenario struct {
	Name string
	// Given comes about undisturbed, by a run of the program before the one that is
	// disturbed.
	Given []string
	// Acts follow one another, each when the one before has settled.
	Acts []Act
	// Small says that its pairs of crashes are few enough for every run of the tests.
	Small bool
}

// Act of a user.
type Act func(*World)

// Settle is how long an act is given: longer than the longest retry of a failed
// sync, the rest of a freed address, and what a live read found is believed.
const Settle = 5 * time.Minute

// Do has the acts happen.
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
	return fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: app, image: one, "+
		"resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}}, %s}", spec)
}

func create(manifests ...string) Act { return func(w *World) { w.Create(manifests...) } }

func patch(resource, name, body string) Act {
	return func(w *World) { w.Patch(resource, name, body) }
}

func remove(resource, name string) Act { return func(w *World) { w.Delete(resource, name, "") } }

// image and request change the template: in place, where that is allowed.
func image(name string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q,"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}}}`, name)
}

func scale(n int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, n) }

var blue = network("blue", "cidr: 10.0.0.0/24")

const onBlue = "networks: [{name: blue}]"

// Scenarios are those of issue 5, and one with a pod of nobody's.
var Scenarios = []Scenario{
	{Name: "create", Acts: []Act{create(blue, network("green", "cidr: 10.0.0.0/24"), pod2("replicas: 2, networks: [{name: blue}, {name: green}]"))}},
	{Name: "scale up and down", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{
		patch("pod2s", "web", scale(3)), patch("pod2s", "web", scale(1)),
	}},
	{Name: "roll with surge", Given: []string{blue, pod2("replicas: 2, " + onBlue +
		", updateStrategy: {type: RollingUpdate, inPlace: Never, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")},
		Acts: []Act{patch("pod2s", "web", image("two"))}},
	{Name: "in place", Given: []string{blue, pod2("replicas: 2, " + onBlue)}, Acts: []Act{
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
	{Name: "CronTab", Given: []string{blue}, Acts: []Act{
		create("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: report, finalizers: [finalizer.stable.example.com]}\n" +
			"spec: {cronSpec: \"7 0 1 1 *\", image: report, replicas: 2, networks: [{name: blue}]}"),
		patch("crontabs", "report", `{"spec":{"image":"other"}}`),
		remove("crontabs", "report"),
	}},
}
