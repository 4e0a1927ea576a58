package model

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func same[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func testMachine() *machine {
	return &machine{
		config:  &Config{},
		objects: newObjects(func(o metav1.Object) metav1.Object { return o }),
		writes:  map[writeOf]answer{},
	}
}

func TestCycle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edges [][]uint32 // of each node
		want  string
	}{
		{"none", [][]uint32{{1, 2}, {3}, {3}, {}}, "[]"},
		{"back to the first", [][]uint32{{1}, {2}, {0}}, "[0 1 2]"},
		{"of one node", [][]uint32{{1}, {1}}, "[1]"},
		{"unreachable from the first", [][]uint32{{}, {2}, {3}, {1}}, "[1 2 3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &graph{}
			for node, targets := range tt.edges {
				g.begin(uint32(node))
				for _, to := range targets {
					g.edge(to)
				}
			}
			same(t, fmt.Sprint(g.cycle(len(tt.edges))), tt.want)
		})
	}
}

// numberedPod is a pod with a number in every possible place.
func numberedPod(version, uid, owner uint16) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-0", UID: uidText(uid), ResourceVersion: versionText(version),
		Annotations:     map[string]string{"json": fmt.Sprintf(`{"uid":"%s"}`, uidText(uid))},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Pod2", Name: "web", UID: uidText(owner)}},
	}}
}

func TestObjectsOfOneContentAreOne(t *testing.T) {
	m := testMachine()
	same(t, m.objects.of(Pods, numberedPod(7, 8, 9)), m.objects.of(Pods, numberedPod(7, 8, 9)))
}

func TestRenumbered(t *testing.T) {
	m := testMachine()
	n := &numbering{uids: []uint16{8: 1, 9: 2}}
	n.versions[Pods] = []uint16{7: 3}
	same(t, m.objects.renumber(m.objects.of(Pods, numberedPod(7, 8, 9)), n), m.objects.of(Pods, numberedPod(3, 1, 2)))
}

// testState has a pod on the server and an older version of it in one cache.
func testState(m *machine, old, now, uid uint16, cache int) *state {
	s := &state{control: make([]control, 2), uids: uid + 1, left: make([]uint8, fixedFaults)}
	s.left[oldViewsLeft] = Any
	s.last[Pods] = now
	s.server[Pods] = []*object{m.objects.of(Pods, numberedPod(now, uid, uid+1))}
	for c := range s.control {
		s.control[c].cache[Pods], s.control[c].at[Pods] = s.server[Pods], now
	}
	s.control[cache].cache[Pods] = []*object{m.objects.of(Pods, numberedPod(old, uid, uid+1))}
	s.control[cache].at[Pods] = old
	return s
}

func TestCanonical(t *testing.T) {
	m := testMachine()
	_, want, _ := m.canonical(testState(m, 1, 2, 1, 0))
	for _, tt := range []struct {
		name string
		s    *state
		same bool
	}{
		{"other numbers", testState(m, 12, 30, 5, 0), true},
		{"the other controller", testState(m, 1, 2, 1, 1), true},
		{"a current cache", testState(m, 2, 2, 1, 0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, text, _ := m.canonical(tt.s)
			same(t, text == want, tt.same)
		})
	}
}

// The server refuses calls and counts versions like an API server.
func TestServe(t *testing.T) {
	block := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Name: block0, Finalizers: []string{v1.InUseFinalizer}}}
	changed := func(change func(*v1.AddressBlock)) func(*v1.AddressBlock) *call {
		return func(b *v1.AddressBlock) *call {
			b = b.DeepCopy()
			change(b)
			return &call{verb: "patch", kind: Blocks, name: block0, patch: types.MergePatchType, body: encoded(b)}
		}
	}
	for _, tt := range []struct {
		name string
		call func(*v1.AddressBlock) *call
		want string
	}{
		{"create an existing object", func(b *v1.AddressBlock) *call {
			return &call{verb: "create", kind: Blocks, name: block0, body: encoded(b)}
		}, "AlreadyExists, 1 at 1"},
		{"patch", changed(func(b *v1.AddressBlock) { b.Spec.Sealed = true }), ", 1 at 2"},
		{"patch without a change", changed(func(*v1.AddressBlock) {}), ", 1 at 1"},
		{"patch an old version", changed(func(b *v1.AddressBlock) { b.ResourceVersion = versionText(9) }), "Conflict, 1 at 1"},
		{"patch with another UID", changed(func(b *v1.AddressBlock) { b.UID = "U0099U" }), "Invalid (another UID), 1 at 1"},
		{"patch a missing object", func(*v1.AddressBlock) *call {
			return &call{verb: "patch", kind: Blocks, name: "other", patch: types.MergePatchType, body: encoded(block)}
		}, "NotFound, 1 at 1"},
		{"break a rule of the schema", changed(func(b *v1.AddressBlock) { b.Spec.CIDR = "10.9.0.0/24" }), "Invalid, 1 at 1"},
		{"delete by another UID", func(*v1.AddressBlock) *call {
			return &call{verb: "delete", kind: Blocks, name: block0, uid: "U0099U"}
		}, "Conflict, 1 at 1"},
		{"delete with a finalizer", func(*v1.AddressBlock) *call {
			return &call{verb: "delete", kind: Blocks, name: block0}
		}, ", 1 at 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine()
			s := &state{}
			stored := m.created(s, Blocks, block.DeepCopy()).objects[0].value.(*v1.AddressBlock)
			next := tt.call(stored)
			next.read()
			a := m.serve(s, next)
			same(t, fmt.Sprintf("%s, %d at %d", a.err, len(s.server[Blocks]), s.last[Blocks]), tt.want)
		})
	}
}

// The search finds a violation only if it is reported.
func TestTwoPodsThatPublishOneAddressAreComplainedOf(t *testing.T) {
	m := testMachine()
	s := &state{}
	for _, name := range []string{"a", "b"} {
		m.created(s, Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{v1.AddressesAnnotation: `{"blue":{"address":"10.0.0.2/29"}}`},
		}})
	}
	m.checkState(s)
	same(t, fmt.Sprint(m.complaints), "[S1: 10.0.0.2 of Network default/blue is held by a and b]")
}

// The name of a configuration identifies it in reports.
func TestConfigurationsHaveNamesOfTheirOwn(t *testing.T) {
	var names []string
	for _, c := range slices.Concat(Small(), Refuted()) {
		if c.Covers == "" || slices.Contains(names, c.Name) {
			t.Errorf("configuration %q has no description, or its name is not unique", c.Name)
		}
		names = append(names, c.Name)
	}
}
