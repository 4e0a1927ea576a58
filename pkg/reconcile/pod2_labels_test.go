package reconcile

import (
	"fmt"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The pod after the patches, with the record of the labels that the Pod2 set.
func TestLabelsOfThePod2(t *testing.T) {
	p := newPod2("web", 1)
	p.Labels = map[string]string{"team": "a"}
	w := newWorld(t, p, replica("web-0"))
	text := func() string {
		t.Helper()
		if _, err := w.sync(KindPod2, "web"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
		pod := podOf(w, "web-0")
		record, recorded := pod.Annotations[v1.Pod2LabelsAnnotation]
		return fmt.Sprintf("team=%q record %q %t", pod.Labels["team"], record, recorded)
	}
	same(t, text(), `team="a" record "{\"team\":\"a\"}" true`)
	p = stored[*v1.Pod2](w, "web").DeepCopy()
	p.Labels = nil
	w.change(p)
	w.catchUp()
	same(t, text(), `team="" record "" false`)
}

// The sync does not wait for a pod that a live read found and that is gone.
func TestAPodThatIsGoneIsNotRemembered(t *testing.T) {
	w := newWorld(t, newPod2("web", 1), replica("web-0 unlabelled"))
	_, _ = w.sync(KindPod2, "web") // finds the pod
	w.catchUp()
	w.remove(podOf(w, "web-0"))
	for range 2 {
		_, _ = w.sync(KindPod2, "web")
		w.catchUp()
	}
	podOf(w, "web-0") // was recreated
}

// A pod that a live read found is not remembered in its old version: once it has its
// label, the cache says when it is gone.
func TestALabelledPodIsNotRemembered(t *testing.T) {
	w := newWorld(t, newPod2("web", 1), replica("web-0 unlabelled"))
	for range 2 { // the first one finds the pod
		_, _ = w.sync(KindPod2, "web")
		w.catchUp()
	}
	if got := podOf(w, "web-0").Labels[v1.ManagedLabel]; got != "true" || len(w.r.writePods.unwatched.sightings) > 0 {
		t.Errorf("the label is %q, and remembered are %v", got, w.r.writePods.unwatched.sightings)
	}
}
