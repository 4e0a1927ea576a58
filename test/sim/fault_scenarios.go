package sim

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// during keeps a fault for three minutes. Users act at its start, and two minutes later the
// test checks the effects that users see.
func during(begin func(*World) (end func()), act, seen Act) Act {
	return func(w *World) {
		end := begin(w)
		act(w)
		time.Sleep(2 * time.Minute)
		seen(w)
		time.Sleep(time.Minute)
		end()
	}
}

func broken(f apiserver.Fault) func(*World) func() {
	return func(w *World) func() { return w.Break(f) }
}

func ruled(r apiserver.Rule) func(*World) func() { return func(w *World) func() { return w.Admit(r) } }

func expect(what string, texts ...string) Act { return func(w *World) { w.Expect(what, texts...) } }

func told(what, text string) Act { return func(w *World) { w.ExpectEvent(what, text) } }

func inOrder(acts ...Act) Act {
	return func(w *World) {
		for _, act := range acts {
			act(w)
		}
	}
}

const (
	webhook = "failed calling webhook"
	denied  = "denied request"
)

// publishes says whether a write publishes addresses on a pod.
func publishes(a apiserver.Attempt) bool {
	return a.New.GetAnnotations()[v1.AddressesAnnotation] != a.Old.GetAnnotations()[v1.AddressesAnnotation]
}

// faultScenarios are the scenarios in which the server, a webhook, a policy or a quota refuses
// some of the users' actions.
var faultScenarios = []Scenario{
	{Name: "a webhook is down", Given: []string{blue, pod2("replicas: 3, " + onBlue)}, Acts: []Act{during(
		broken(apiserver.Fault{On: []string{"POST pods"}, Error: apiserver.WebhookIsDown("injector.example.com")}),
		inOrder(remove("pods", "web-0"), remove("pods", "web-2")),
		inOrder(expect("pods/web-1", "Ready True"), expect("pod2s/web", "Ready False", webhook), told("pod2s/web", webhook)),
	)}, Long: true},
	{Name: "updates are refused", Given: []string{blue, pod2("replicas: 2, " + onBlue)}, Acts: []Act{during(
		broken(apiserver.Fault{On: []string{"PATCH pods"}, Error: apiserver.WebhookIsDown("injector.example.com")}),
		inOrder(patch("pod2s", "web", image("two")), remove("pods", "web-1")),
		inOrder(expect("pods/web-0", "Ready True"), expect("pods/web-1"), expect("pod2s/web", webhook), told("pods/web-1", webhook)),
	)}, Long: true},
	{Name: "a policy refuses the Pod2's writes", Given: []string{blue, pod2("replicas: 3, " + onBlue)}, Acts: []Act{during(
		ruled(apiserver.Rule{On: []string{"PATCH pod2s"}, Refuse: apiserver.Policy("no annotations here", nil)}),
		inOrder(func(w *World) { w.Fail("web-0") }, remove("pods", "web-1")),
		inOrder(expect("pods/web-2", "Ready True"), expect("pods/web-1", "Ready True"), expect("pod2s/web", denied), told("pod2s/web", denied)),
	), func(*World) { time.Sleep(10 * time.Minute) }}, Long: true}, // until the failure is forgotten
	{Name: "a policy refuses the Network's writes", Acts: []Act{during(
		ruled(apiserver.Rule{On: []string{"PATCH networks"}, Refuse: apiserver.Policy("no finalizers here", nil)}),
		create(blue, pod2("replicas: 2, "+onBlue)),
		inOrder(expect("pod2s/web", "Ready False"), expect("pods/web-1", denied), expect("networks/blue", "Ready False", denied), told("networks/blue", denied)),
	)}, Long: true},
	{Name: "a policy refuses publications", Given: []string{blue}, Acts: []Act{during(
		ruled(apiserver.Rule{On: []string{"PATCH pods"}, Refuse: apiserver.Policy("no addresses here", publishes)}),
		create(pod2("replicas: 2, "+onBlue)),
		inOrder(expect("pods/web-1"), expect("pod2s/web", "Ready False"), func(w *World) { w.ExpectOne(denied, "pods/web-0", "networks/blue", "pod2s/web") }),
	)}, Long: true},
	{Name: "AddressBlocks are refused", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{during(
		broken(apiserver.Fault{On: []string{"POST addressblocks", "PATCH addressblocks"}, Error: apiserver.WebhookIsDown("injector.example.com")}),
		patch("pod2s", "web", scale(2)),
		inOrder(expect("pods/web-0", "Ready True"), expect("pods/web-1", webhook), expect("networks/blue", webhook), told("networks/blue", webhook)),
	)}, Long: true},
	{Name: "Services and attachments are refused", Acts: []Act{during(
		broken(apiserver.Fault{On: []string{"POST services", "POST vnis", "POST network-attachment-definitions"}, Error: apiserver.WebhookIsDown("injector.example.com")}),
		create(blue, pod2("replicas: 1, "+onBlue)),
		inOrder(expect("pods/web-0", "Ready True"), expect("pod2s/web", webhook), expect("networks/blue", webhook)),
	)}, Long: true},
	{Name: "quota", Given: []string{blue, pod2("replicas: 1, " + onBlue)}, Acts: []Act{during(
		ruled(apiserver.Quota(apiserver.Namespace, "pods", 2)),
		patch("pod2s", "web", scale(4)),
		inOrder(expect("pods/web-1", "Ready True"), expect("pod2s/web", "Ready False", "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2")),
	)}, Long: true},
	{Name: "a PVC is refused", Given: []string{blue, fast, pod2("replicas: 1, " + onBlue + claims("1Gi"))}, Acts: []Act{during(
		ruled(apiserver.Rule{On: []string{"POST persistentvolumeclaims"}, Refuse: apiserver.Policy("not this one", func(a apiserver.Attempt) bool { return a.Name == "data-web-1" })}),
		patch("pod2s", "web", scale(4)),
		inOrder(expect("pod2s/web", "Ready False", denied), expect("pods/web-2", "Ready True"), expect("pods/web-3", "Ready True")),
	)}, Long: true},
	{Name: "image mirror", Acts: []Act{
		func(w *World) {
			w.Admit(apiserver.Rule{On: []string{"POST pods"}, Mutate: mirror})
			w.Create(blue, pod2("replicas: 2, "+onBlue))
		},
		expect("pods/web-0", "image proxy", "image mirror/one", "Ready True"),
		remove("pods", "web-0"),
		patch("pod2s", "web", scale(3)),
		patch("pod2s", "web", image("two")),
		inOrder(expect("pods/web-0", "image proxy", "image mirror/two", "Ready True"), expect("pods/web-2", "image proxy", "image mirror/two", "Ready True")),
	}, Long: true},
	{Name: "a CronTab's CronJob is refused", Given: []string{blue}, Acts: []Act{during(
		broken(apiserver.Fault{On: []string{"POST cronjobs"}, Error: apiserver.WebhookIsDown("injector.example.com")}),
		create("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: report}\nspec: {cronSpec: \"7 0 1 1 *\", image: report, networks: [{name: blue}]}"),
		inOrder(expect("crontabs/report", webhook), told("crontabs/report", webhook)),
	), patch("crontabs", "report", `{"spec":{"image":"other"}}`), remove("crontabs", "report")}, Long: true},
	{Name: "two namespaces", Given: []string{blue, pod2("replicas: 1, " + onBlue), elsewhere(blue), elsewhere(pod2("replicas: 1, " + onBlue))}, Acts: []Act{during(
		broken(apiserver.Fault{In: "other", Error: apiserver.ErrInternal}),
		inOrder(patch("pod2s", "web", scale(2)), patch("pod2s", "other/web", scale(2))),
		inOrder(expect("pods/web-1", "Ready True"), expect("pod2s/web", "Ready True")),
	)}, Long: true},
}

// mirror changes pods as the admission of some clusters does: each image comes from a
// mirror, and each pod gets one more container.
func mirror(obj apiserver.Object) {
	pod := obj.(*corev1.Pod)
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = "mirror/" + strings.TrimPrefix(pod.Spec.Containers[i].Image, "mirror/")
	}
	pod.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy"}}, pod.Spec.Containers...)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "injected", "true")
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "injected", "true")
}
