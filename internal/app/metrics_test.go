package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplelisters "github.com/pod2/pod2/pkg/client/listers/samplecrd/v1"

	"github.com/pod2/pod2/internal/serving"
)

// scraped returns the lines of a page with this prefix, without the comments.
func scraped(t *testing.T, handler http.Handler, prefix string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func TestNetworkMetrics(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range []*samplecrdv1.Network{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "blue"}, Status: samplecrdv1.NetworkStatus{
			Bound: 3, Reserved: 2, Resting: 1, Available: 1 << 40,
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}, {Type: "AddressesAvailable", Status: "True"}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "tiny"}, Status: samplecrdv1.NetworkStatus{
			Bound: 1, Conditions: []metav1.Condition{{Type: "Ready", Status: "False"}, {Type: "AddressesAvailable", Status: "False"}},
		}},
	} {
		if err := store.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	registry := k8smetrics.NewKubeRegistry()
	registry.CustomMustRegister(&networkCollector{networks: samplelisters.NewNetworkLister(store)})
	want := `pod2_network_addresses{network="blue",network_namespace="a",state="available"} 1.099511627776e+12
pod2_network_addresses{network="blue",network_namespace="a",state="bound"} 3
pod2_network_addresses{network="blue",network_namespace="a",state="reserved"} 2
pod2_network_addresses{network="blue",network_namespace="a",state="resting"} 1
pod2_network_addresses{network="tiny",network_namespace="b",state="available"} 0
pod2_network_addresses{network="tiny",network_namespace="b",state="bound"} 1
pod2_network_addresses{network="tiny",network_namespace="b",state="reserved"} 0
pod2_network_addresses{network="tiny",network_namespace="b",state="resting"} 0
pod2_network_exhausted{network="blue",network_namespace="a"} 0
pod2_network_exhausted{network="tiny",network_namespace="b"} 1
pod2_network_ready{network="blue",network_namespace="a"} 1
pod2_network_ready{network="tiny",network_namespace="b"} 0
`
	if got := scraped(t, k8smetrics.HandlerFor(registry, k8smetrics.HandlerOpts{}), "pod2_"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestOldestWaitingPod(t *testing.T) {
	now := time.Now()
	pod := func(namespace, name string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: samplecrdv1.AddressesGate}}},
		}
	}
	published, terminating, failed := pod("a", "published", time.Hour), pod("a", "terminating", time.Hour), pod("a", "failed", time.Hour)
	published.Spec.SchedulingGates = nil
	terminating.DeletionTimestamp = &metav1.Time{Time: now}
	failed.Status.Phase = corev1.PodFailed
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, p := range []*corev1.Pod{
		published, terminating, failed, pod("a", "older", time.Minute), pod("a", "newer", time.Second), pod("b", "of-a-clock-ahead", -time.Second),
	} {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	published = published.DeepCopy()
	published.Namespace = "nobody-waits"
	if err := store.Add(published); err != nil {
		t.Fatal(err)
	}
	registry := k8smetrics.NewKubeRegistry()
	registry.CustomMustRegister(&podCollector{pods: corelisters.NewPodLister(store), clock: clocktesting.NewFakePassiveClock(now)})
	want := `pod2_oldest_waiting_pod_seconds{pod_namespace="a"} 60
pod2_oldest_waiting_pod_seconds{pod_namespace="b"} 0
`
	if got := scraped(t, k8smetrics.HandlerFor(registry, k8smetrics.HandlerOpts{}), "pod2_"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// The metrics of client-go that docs/reference and the alerts name.
func TestMetricsOfCalls(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("a").Get(t.Context(), "p", metav1.GetOptions{}); err == nil {
		t.Fatal("no error")
	}
	host := strings.TrimPrefix(server.URL, "http://")
	for _, want := range []string{
		`rest_client_requests_total{code="404",host="` + host + `",method="GET"} 1`,
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="GET"} 1`,
	} {
		if got := scraped(t, serving.Metrics(k8smetrics.NewKubeRegistry()), want); got == "" {
			t.Errorf("no %s", want)
		}
	}
}
