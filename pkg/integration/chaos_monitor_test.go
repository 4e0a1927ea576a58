//go:build integration && chaos

package integration

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/pkg/attachment"
)

// monitor holds a namespace to S1 to S4 at each event of its own watch of pods. A
// watch that cannot go on where it was, since the API server was killed, begins
// with a list: what changed twice in that moment is seen once.
type monitor struct {
	pods   map[string]*corev1.Pod
	events int

	// pools are what may be handed out, by Network.
	pools map[string]netip.Prefix
	never map[netip.Addr]bool // network, broadcast, gateway and excluded addresses
	// steady are the Pod2s whose replicas never change address; steadyAt is what each
	// had first.
	steady   []string
	steadyAt map[string]string
	// most replicas, with surge, that a Pod2 has had in its spec.
	most map[string]int
}

func (m *monitor) start(t *testing.T, namespace string) {
	m.pods, m.steadyAt = map[string]*corev1.Pod{}, map[string]string{}
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
		<-ended // t.Context() has ended before
		t.Logf("the monitor saw %d events", m.events)
	})
}

// watch follows the pods until the watch ends, and says what is wrong.
func (m *monitor) watch(ctx context.Context, namespace string) string {
	list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		time.Sleep(10 * time.Millisecond) // it is down: look again soon
		return ""
	}
	clear(m.pods)
	for i := range list.Items {
		m.pods[list.Items[i].Name] = &list.Items[i]
	}
	if why := m.check(m.pods); why != "" {
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
		m.pods[pod.Name] = pod
		if event.Type == watch.Deleted {
			delete(m.pods, pod.Name)
		}
		if why := m.check(m.pods); why != "" {
			return why
		}
	}
	return ""
}

func (m *monitor) check(pods map[string]*corev1.Pod) string {
	if why := sharedAddress(pods); why != "" {
		return "S1: " + why
	}
	counts := map[string]int{}
	for name, pod := range pods {
		for network, a := range attachment.Published(pod) {
			addr := a.Address.Addr()
			if !m.pools[network].Contains(addr) || m.never[addr] {
				return fmt.Sprintf("S2: %s has %s of %s", name, addr, network)
			}
		}
		owner := attachment.Owner(pod)
		if owner.Kind != "Pod2" {
			continue
		}
		counts[owner.Name]++
		for _, steady := range m.steady {
			if owner.Name != steady || attachment.Gated(pod) {
				continue
			}
			is := pod.Annotations["samplecrd.k8s.io/addresses"]
			if was, known := m.steadyAt[name]; known && was != is {
				return fmt.Sprintf("S3: %s had %s and has %s", name, was, is)
			}
			m.steadyAt[name] = is
		}
	}
	for name, n := range counts {
		if n > m.most[name] {
			return fmt.Sprintf("S4: %d pods of Pod2 %s, never more than %d wanted", n, name, m.most[name])
		}
	}
	return ""
}

// reservedAddresses are those of a /27 that nobody may get, with its default
// gateway and an excluded one.
func reservedAddresses(cidr, excluded string) map[netip.Addr]bool {
	prefix := netip.MustParsePrefix(cidr)
	first := prefix.Addr()
	last := first.As4()
	last[3] += 31
	return map[netip.Addr]bool{first: true, first.Next(): true, netip.AddrFrom4(last): true, netip.MustParseAddr(excluded): true}
}
