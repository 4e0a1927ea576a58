//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// monitor checks S1 to S4 of a namespace at each event of its own watch of pods. If the API
// server was killed and the watch cannot continue, it begins with a list. The monitor then
// misses the first of two changes of one pod.
type monitor struct {
	pods   map[string]*corev1.Pod
	events int

	// networks define the addresses that may be handed out.
	networks []*v1.Network
	// steady are the Pod2s whose replicas never change address; kept has the first address
	// of each replica.
	steady  []string
	kept    spec.Kept
	mu      sync.Mutex
	demands map[string][]demand // in the order of their requests
	updated updated             // is checked for S5, if it has a name
}

// demand is the number of pods that the spec of a Pod2 allows, including surge replicas.
type demand struct {
	most int
	// inForce is the time since when the spec applies. It is zero while the API server has
	// not confirmed the spec, and may stay zero.
	inForce time.Time
}

// lag is the longest time between the controller's last look at a Pod2's spec and the
// arrival of its pod at the API server. Creation times are precise to the second.
const lag = 5 * time.Second

func newMonitor(networks []*v1.Network, steady ...string) *monitor {
	return &monitor{networks: networks, steady: steady, pods: map[string]*corev1.Pod{}, kept: spec.Kept{}, demands: map[string][]demand{}}
}

// asked is called before a spec is written; the returned function is called after the
// answer.
func (m *monitor) asked(name string, most int) (answered func(now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.demands[name] = append(m.demands[name], demand{most: most})
	i := len(m.demands[name]) - 1
	return func(now time.Time) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.demands[name][i].inForce = now
	}
}

func (m *monitor) held() updated {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.updated
}

// release ends the check of S5: from now on, users may delete pods of updated.
func (m *monitor) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updated = updated{}
}

// most is the number of pods that the controller may have wanted when it created a pod
// then.
func (m *monitor) most(name string, then time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := 0
	for _, d := range slices.Backward(m.demands[name]) {
		most = max(most, d.most)
		if !d.inForce.IsZero() && then.Sub(d.inForce) > lag {
			break
		}
	}
	return most
}

func (m *monitor) start(t *testing.T, namespace string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed := false
		for t.Context().Err() == nil {
			if why := m.watch(t.Context(), namespace); why != "" && !failed {
				failed = true
				t.Error(why)
			}
		}
	}()
	t.Cleanup(func() {
		<-ended // t.Context() has already ended
		t.Logf("the monitor saw %d events", m.events)
	})
}

// watch follows the pods until the watch ends, and returns a fault.
func (m *monitor) watch(ctx context.Context, namespace string) string {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		time.Sleep(10 * time.Millisecond) // the API server is down: try again soon
		return ""
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	if why := m.see(pods); why != "" {
		return why
	}
	events, err := kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return ""
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return ""
		}
		m.events++
		pods := maps.Clone(m.pods)
		pods[pod.Name] = pod
		if event.Type == watch.Deleted {
			delete(pods, pod.Name)
		}
		if why := m.held().taken(m.pods, pods, time.Now()); why != "" {
			return why
		}
		if why := m.see(pods); why != "" {
			return why
		}
	}
	return ""
}

// see returns a fault of the present pods. Since the last new pod, pods have only been
// deleted.
func (m *monitor) see(pods map[string]*corev1.Pod) string {
	before := m.pods
	m.pods = pods
	if why := sharedAddress(pods); why != "" {
		return why
	}
	created := map[types.UID]*corev1.Pod{} // the newest pod of each Pod2
	for name, pod := range pods {
		for network, prefix := range spec.Published(pod) {
			i := slices.IndexFunc(m.networks, func(n *v1.Network) bool { return n.Name == network })
			if i < 0 {
				return fmt.Sprintf("S2: %s has %s of %s, but there is no such Network", name, prefix.Addr(), network)
			}
			if why := spec.Unusable(m.networks[i], prefix.Addr().String()); why != "" {
				return fmt.Sprintf("S2: %s has %s of %s, but the address %s", name, prefix.Addr(), network, why)
			}
		}
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "Pod2" {
			continue
		}
		last := created[owner.UID]
		if was := before[name]; (was == nil || was.UID != pod.UID) && (last == nil || last.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			created[owner.UID] = pod
		}
		for _, held := range spec.Holds(pod) {
			if !slices.Contains(m.steady, owner.Name) {
				continue
			}
			if why := m.kept.See(spec.Replica{Pod: name, Network: types.UID(held.Network)}, pod, held); why != "" {
				return why
			}
		}
	}
	for _, pod := range created {
		if why := spec.TooMany(pod, slices.Collect(maps.Values(pods)), m.most(metav1.GetControllerOf(pod).Name, pod.CreationTimestamp.Time)); why != "" {
			return why
		}
	}
	return ""
}

// nearlyFull are the Networks of chaos: a /27 each, with one excluded address.
func nearlyFull(cidr, excluded string) (networks []*v1.Network) {
	for _, name := range []string{"blue", "green"} {
		networks = append(networks, &v1.Network{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NetworkSpec{CIDR: cidr, Exclude: []v1.AddressRange{v1.AddressRange(excluded)}},
		})
	}
	return networks
}
