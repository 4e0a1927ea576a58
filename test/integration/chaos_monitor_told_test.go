//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// podsOf reads pods as "name owner address", with "-" for none. The prefix is a /27 unless
// the address has another. A different text is a different pod.
func podsOf(t *testing.T, created time.Time, texts []string) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, text := range texts {
		f := strings.Fields(text)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f[0], UID: types.UID(text), CreationTimestamp: metav1.NewTime(created)}}
		if f[1] != "-" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod2", Name: f[1], UID: types.UID(f[1]), Controller: ptr.To(true)}}
		}
		if f[2] != "-" {
			address := f[2]
			if !strings.Contains(address, "/") {
				address += "/27"
			}
			pod.Annotations = map[string]string{"samplecrd.k8s.io/addresses": fmt.Sprintf(`{"blue":{"address":%q}}`, address)}
		}
		pods[pod.Name] = pod
	}
	return pods
}

// The monitor of make chaos reports broken promises, and nothing else.
func TestMonitorOfChaosTellsBrokenPromises(t *testing.T) {
	t.Parallel()
	const scaled = 20 * time.Second // when web was scaled from 2 to 1
	for _, row := range []struct {
		name  string
		first []string
		at    time.Duration
		then  []string
		want  string
	}{
		{"nothing", nil, 0, []string{"db-0 db 10.0.0.2", "web-0 web 10.0.0.3", "a - 10.0.0.4", "b - -"}, ""},
		{"S1", nil, 0, []string{"a - 10.0.0.2", "b - 10.0.0.2"}, "S1: 10.0.0.2 of Network default/blue is held by "},
		{"S1, one address with an earlier prefix", nil, 0, []string{"a - 10.0.0.2", "b - 10.0.0.2/26"}, "S1: 10.0.0.2 of Network default/blue is held by "},
		{"S2, another CIDR", nil, 0, []string{"a - 10.0.0.32"}, "S2: a has 10.0.0.32 of blue"},
		{"S2, the gateway", nil, 0, []string{"a - 10.0.0.1"}, "S2: a has 10.0.0.1 of blue"},
		{"S2, excluded", nil, 0, []string{"a - 10.0.0.9"}, "S2: a has 10.0.0.9 of blue"},
		{"S3", []string{"db-0 db 10.0.0.2"}, 1, []string{"db-0 db 10.0.0.3"}, "S3: db-0 had 10.0.0.2 of Network blue, and now has 10.0.0.3"},
		{"another address, of a Pod2 that is not steady", []string{"web-0 web 10.0.0.2"}, 1, []string{"web-0 web 10.0.0.3"}, ""},
		{"S4", []string{"db-0 db -"}, 1, []string{"db-0 db -", "db-1 db -"}, "S4: db-1 is created: 2 pods of db exist, and at most 1 may"},
		{"S4, after it was scaled down", []string{"web-0 web -"}, scaled + lag + 1, []string{"web-0 web -", "web-1 web -"}, "S4: web-1 is created: 2 pods of web exist, and at most 1 may"},
		{"S4, one pod replaced", []string{"web-0 web -", "web-1 web -"}, scaled + lag + 1, []string{"web-0 web 10.0.0.2", "web-1 web -"}, "S4: web-0 is created: 2 pods"},
		{"just scaled down", []string{"web-0 web -"}, scaled + lag, []string{"web-0 web -", "web-1 web -"}, ""},
		{"scaled down, pods still exist", []string{"web-0 web -", "web-1 web -"}, scaled + lag + 1, []string{"web-0 web -", "web-1 web -"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMonitor(nearlyFull("10.0.0.0/27", "10.0.0.9"), "db")
			begin := time.Now()
			m.asked("db", 1)(begin)
			m.asked("web", 2)(begin)
			if why := m.see(podsOf(t, begin, row.first)); why != "" {
				t.Fatal(why)
			}
			m.asked("web", 1)(begin.Add(scaled))
			if got := m.see(podsOf(t, begin.Add(row.at), row.then)); !strings.HasPrefix(got, row.want) || (got == "") != (row.want == "") {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// A write without an answer may be in force, or not.
func TestMonitorOfChaosAllowsForLostAnswers(t *testing.T) {
	t.Parallel()
	m := newMonitor(nil)
	begin := time.Now()
	m.asked("web", 5)(begin)
	m.asked("web", 9)
	m.asked("web", 2)
	for _, row := range []struct {
		at   time.Duration
		want int
	}{{lag, 9}, {time.Hour, 9}} {
		if got := m.most("web", begin.Add(row.at)); got != row.want {
			t.Errorf("after %s: %d, want %d", row.at, got, row.want)
		}
	}
	m.asked("web", 3)(begin.Add(time.Hour))
	if got := m.most("web", begin.Add(time.Hour+lag+1)); got != 3 {
		t.Errorf("after an answer: most is %d, want 3", got)
	}
}
