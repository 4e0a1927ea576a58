package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/test/chance"
)

// world has users, kubelets and a garbage collector around a server, and two controllers at
// once. Each controller has its own caches, and each kind in them may be of any age.
type world struct {
	server
	t      *testing.T
	dice   *rand.Rand
	caches [2]cluster
	lags   [2][4]int // of each kind: the cache catches up in one of this many turns
	calm   bool      // users leave AddressBlocks alone, and only let Networks grow
	log    []string
}

var networkNames = []string{"blue", "green"}

func newWorld(t *testing.T, dice *rand.Rand) *world {
	w := &world{server: server{cluster: newCluster(), now: now}, t: t, dice: dice, caches: [2]cluster{newCluster(), newCluster()}, calm: chance.One(dice, 2)}
	for _, name := range networkNames {
		w.createNetwork(name)
	}
	for i := range w.lags {
		for kind := range w.lags[i] {
			w.lags[i][kind] = chance.Pick(dice, 1, 1, 1, 2, 10)
		}
	}
	w.owners[v1.AddressOwner{Kind: "Pod2", Name: "web"}] = Replicas{Ordinals: ordinals.New(0, 2, nil), Networks: networkNames}
	return w
}

func (w *world) did(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// must stops the run on an error and prints the last steps.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, errRefused) {
		w.t.Fatalf("%s\nlast steps:\n%s\n%s", err, strings.Join(w.log[max(0, len(w.log)-40):], "\n"), &w.server)
	}
}

func (w *world) createNetwork(name string) {
	cidr := chance.Pick(w.dice, "10.0.0.0/29", "10.0.0.0/30", "10.0.0.0/29", "10.0.0.252/30", "10.0.0.248/29")
	w.putNetwork(&v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec:       v1.NetworkSpec{CIDR: cidr, ReuseDelaySeconds: ptr.To(chance.Pick[int32](w.dice, 0, 0, 60))},
	})
	w.did("user creates Network %s %s", name, cidr)
}

// user makes a random change that users make.
func (w *world) user() {
	name := chance.Pick(w.dice, podNames...)
	pod := w.pods[name]
	switch {
	case pod == nil && !chance.One(w.dice, 8):
		w.createPod(name)
	case pod != nil && chance.One(w.dice, 2):
		w.did("user deletes pod %s", name)
		if attachment.Gated(pod) {
			delete(w.pods, name)
			break
		}
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
		w.putPod(pod)
	case pod != nil && chance.One(w.dice, 4):
		pod = pod.DeepCopy()
		pod.OwnerReferences = chance.Pick(w.dice, nil, controlledBy("StatefulSet"), controlledBy("Pod2"))
		w.putPod(pod)
		w.did("a user sets the controller of pod %s to %v", name, attachment.Owner(pod))
	case chance.One(w.dice, 3):
		owner := v1.AddressOwner{Kind: "Pod2", Name: "web"}
		if w.did("user changes Pod2 web"); chance.One(w.dice, 5) {
			delete(w.owners, owner)
		} else {
			w.owners[owner] = Replicas{Ordinals: ordinals.New(0, w.dice.Int32N(4), nil), Networks: chance.Pick(w.dice, networkNames, networkNames[:1])}
		}
	case chance.One(w.dice, 8):
		w.askRelease()
	case chance.One(w.dice, 8):
		w.grow(chance.Pick(w.dice, networkNames...))
	case !w.calm && chance.One(w.dice, 6):
		w.changeNetwork(chance.Pick(w.dice, networkNames...))
	case !w.calm && len(w.blocks) > 0 && chance.One(w.dice, 3):
		b := chance.Pick(w.dice, sorted(w.blocks)...)
		w.did("user deletes block %s", b.Name)
		if w.deleteBlock(b); w.blocks[b.Name] == nil && len(b.Spec.Entries) > 0 {
			w.everybodySees() // after a restore it had no finalizer yet: the same as taken away
		}
	case !w.calm && chance.One(w.dice, 4):
		w.restore()
	case !w.calm && len(w.blocks) > 0 && chance.One(w.dice, 9):
		b := chance.Pick(w.dice, sorted(w.blocks)...)
		w.did("user takes block %s away, finalizer and all", b.Name)
		delete(w.blocks, b.Name)
		// Only the caches protect addresses that it had bound and that were not published
		// yet: a controller whose cache still shows the AddressBlock would publish them.
		w.everybodySees()
	}
}

// askRelease: a user asks to release every reservation, and the request stays.
func (w *world) askRelease() {
	for _, b := range sorted(w.blocks) {
		n := w.networks[b.Spec.Network]
		if text, err := json.Marshal(b.Spec.Entries); err == nil && n != nil {
			n = n.DeepCopy()
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1.ReleaseAnnotation, string(text))
			w.putNetwork(n)
			w.did("user asks for the release of all of %s", b.Name)
		}
	}
}

// restore loses one object or all, and recreates them like a restore from a very recent
// backup.
func (w *world) restore() {
	one := w.dice.IntN(4)
	w.did("a user restores the objects of kind %d", one)
	if one == 0 || one == 3 {
		for _, n := range sorted(w.networks) {
			w.putNetwork(&v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, Generation: 1, Annotations: n.Annotations}, Spec: n.Spec})
		}
	}
	if one == 1 || one == 3 {
		for _, b := range sorted(w.blocks) {
			w.putBlock(&v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, Annotations: b.Annotations}, Spec: *b.Spec.DeepCopy()})
		}
	}
	if one == 2 || one == 3 {
		for _, p := range sorted(w.pods) {
			w.putPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Annotations: maps.Clone(p.Annotations)},
				Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}}})
		}
	}
}

func controlledBy(kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: "web", Controller: ptr.To(true)}}
}

func (w *world) createPod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if strings.HasPrefix(name, "web-") {
		pod.OwnerReferences = controlledBy("Pod2")
	}
	pod.Annotations = map[string]string{v1.NetworksAnnotation: chance.Pick(w.dice, "blue", "blue", "green", "green", "blue,green", "blue,green", "blue,green", chance.Pick(w.dice, "blue=10.0.0.2", "blue,green=10.0.0.3"))}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
	w.putPod(pod)
	w.did("user creates pod %s/%s %s", name, pod.UID, pod.Annotations[v1.NetworksAnnotation])
}

func (w *world) changeNetwork(name string) {
	n := w.networks[name]
	if n == nil {
		w.createNetwork(name)
		return
	}
	n = n.DeepCopy()
	switch w.dice.IntN(6) {
	case 0:
		if n.DeletionTimestamp == nil {
			n.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			if chance.One(w.dice, 2) {
				n.Finalizers = append(n.Finalizers, "foregroundDeletion")
			}
		}
	case 2:
		n.Spec.CIDR, n.Generation = "10.0.0.0/23", n.Generation+1
	case 3:
		n.Spec.Exclude, n.Generation = chance.Pick(w.dice, nil, []v1.AddressRange{"10.0.0.2"}, nil, nil, []v1.AddressRange{"10.0.0.4-10.0.0.2"}), n.Generation+1
	case 4:
		if chance.One(w.dice, 3) {
			n.Finalizers = nil
		}
	}
	w.putNetwork(n)
	w.did("user changes Network %s: %v terminating=%t finalizers=%v", name, n.Spec, terminating(n), n.Finalizers)
}

// others are the kubelets and the garbage collector.
func (w *world) others() {
	for _, pod := range sorted(w.pods) {
		switch {
		case pod.DeletionTimestamp != nil && chance.One(w.dice, 3):
			w.did("pod %s is gone", pod.Name)
			delete(w.pods, pod.Name)
		case !attachment.Gated(pod) && !attachment.Over(pod) && chance.One(w.dice, 12):
			pod = pod.DeepCopy()
			pod.Status.Phase = chance.Pick(w.dice, corev1.PodSucceeded, corev1.PodFailed)
			w.putPod(pod)
			w.did("pod %s terminated", pod.Name)
		}
	}
	w.collectGarbage()
	w.now = w.now.Add(time.Duration(w.dice.IntN(20_000)) * time.Millisecond)
}

func (w *world) collectGarbage() {
	left := map[types.UID]bool{}
	for _, b := range sorted(w.blocks) {
		n := w.networks[b.Spec.Network]
		foreground := n != nil && slices.Contains(n.Finalizers, "foregroundDeletion")
		gone := n == nil || n.UID != b.Spec.NetworkUID
		if (gone && len(b.OwnerReferences) > 0 || foreground) && b.DeletionTimestamp == nil {
			w.deleteBlock(b)
		}
		left[b.Spec.NetworkUID] = true
	}
	for _, n := range sorted(w.networks) {
		if terminating(n) && !left[n.UID] && slices.Contains(n.Finalizers, "foregroundDeletion") {
			n = n.DeepCopy()
			n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == "foregroundDeletion" })
			w.putNetwork(n)
		}
	}
}
