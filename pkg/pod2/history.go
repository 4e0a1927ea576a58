package pod2

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// ChangeCauseAnnotation on a Pod2 says why its spec is as it is: its revision
// keeps the text, as one of a Deployment does.
const ChangeCauseAnnotation = "kubernetes.io/change-cause"

// Revision is one that a Pod2 can go back to.
type Revision struct {
	Object  *appsv1.ControllerRevision
	Content Content
	// Wanted says that the spec has this content now.
	Wanted bool
}

// History are the revisions of a Pod2 among these, by number. The one of the spec
// is not among them before the controller has seen the spec.
func History(p *v1.Pod2, objects []*appsv1.ControllerRevision) []Revision {
	known := readRevisions(State{Pod2: p, Revisions: objects})
	var history []Revision
	for _, r := range known.ours {
		if metav1.IsControlledBy(r.object, p) {
			history = append(history, Revision{Object: r.object, Content: r.content, Wanted: known.tooLarge == 0 && r == known.update})
		}
	}
	return history
}
