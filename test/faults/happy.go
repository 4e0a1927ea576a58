package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	"github.com/pod2/pod2/pkg/reconcile"
)

// HappyPath runs the whole controller on fake clientsets. A Network and a Pod2 become pods
// with addresses and names, and a CronTab becomes a CronJob. Nothing is written during
// quiet afterwards.
func HappyPath(t *testing.T, start func(t *testing.T, clients reconcile.Clients) (stop func()), quiet time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		// An API server does this, and the fake does not.
		kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
			pod.UID = types.UID("uid-of-" + pod.Name)
			return false, nil, nil
		})
		sample := samplefake.NewSimpleClientset(
			&samplecrdv1.Network{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "uid-of-blue", Generation: 1},
				Spec:       samplecrdv1.NetworkSpec{CIDR: "192.168.0.0/16"},
			},
			&samplecrdv1.Pod2{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-of-web", Generation: 1},
				Spec: samplecrdv1.Pod2Spec{
					Replicas: ptr.To[int32](2),
					Networks: []samplecrdv1.Pod2Network{{Name: "blue"}},
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
				},
			},
			&stablev1.CronTab{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "report", UID: "uid-of-report", Generation: 1},
				Spec:       stablev1.CronTabSpec{CronSpec: "@yearly", Image: "report", Networks: []stablev1.CronTabNetwork{{Name: "blue"}}},
			})
		clients := reconcile.Clients{Kube: kube, Sample: sample}
		stop := start(t, clients)

		time.Sleep(time.Minute)
		for _, name := range []string{"web-0", "web-1"} {
			becomeReady(t, kube, name)
		}
		time.Sleep(time.Minute)
		want := strings.Join([]string{
			`pod web-0: gates 0, {"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"}}`,
			`pod web-1: gates 0, {"blue":{"address":"192.168.0.3/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:03"}}`,
			`network blue: bound 2, Ready True`,
			`pod2 web: replicas 2, ready 2, Ready True`,
			`cronjob report: @yearly, blue`,
			`service web-blue: None, DNSPublished True`,
			`slice web-blue-0: web-0=192.168.0.2 web-1=192.168.0.3`,
		}, "\n")
		if got := render(t, clients); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}

		kube.ClearActions()
		sample.ClearActions()
		time.Sleep(quiet)
		for _, action := range slices.Concat(kube.Actions(), sample.Actions()) {
			if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
				t.Errorf("a resync wrote: %s %s", action.GetVerb(), action.GetResource().Resource)
			}
		}
		stop()
	})
}

// becomeReady acts as the scheduler and the kubelet.
func becomeReady(t *testing.T, kube *fake.Clientset, name string) {
	t.Helper()
	pods := kube.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.NodeName = "node"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func render(t *testing.T, clients reconcile.Clients) string {
	t.Helper()
	var lines []string
	pods, err := clients.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		lines = append(lines, fmt.Sprintf("pod %s: gates %d, %s", pod.Name, len(pod.Spec.SchedulingGates), pod.Annotations[samplecrdv1.AddressesAnnotation]))
	}
	slices.Sort(lines)
	network, err := clients.Sample.SamplecrdV1().Networks("default").Get(t.Context(), "blue", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod2, err := clients.Sample.SamplecrdV1().Pod2s("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cronJob, err := clients.Kube.BatchV1().CronJobs("default").Get(t.Context(), "report", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := clients.Kube.CoreV1().Services("default").Get(t.Context(), "web-blue", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice, err := clients.Kube.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "web-blue-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range slice.Endpoints {
		names = append(names, *e.Hostname+"="+e.Addresses[0])
	}
	return strings.Join(append(lines,
		fmt.Sprintf("network blue: bound %d, Ready %s", network.Status.Bound, condition(network.Status.Conditions, samplecrdv1.ConditionReady)),
		fmt.Sprintf("pod2 web: replicas %d, ready %d, Ready %s", pod2.Status.Replicas, pod2.Status.ReadyReplicas, condition(pod2.Status.Conditions, samplecrdv1.ConditionReady)),
		fmt.Sprintf("cronjob %s: %s, %s", cronJob.Name, cronJob.Spec.Schedule, cronJob.Spec.JobTemplate.Spec.Template.Annotations[samplecrdv1.NetworksAnnotation]),
		fmt.Sprintf("service %s: %s, DNSPublished %s", service.Name, service.Spec.ClusterIP, condition(pod2.Status.Conditions, samplecrdv1.ConditionDNSPublished)),
		fmt.Sprintf("slice %s: %s", slice.Name, strings.Join(names, " ")),
	), "\n")
}

func condition(conditions []metav1.Condition, kind string) metav1.ConditionStatus {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
