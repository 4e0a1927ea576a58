package pod2

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// ChangeCauseAnnotation on a Pod2 says why its spec was changed. The revision keeps the
// text, as for a Deployment.
const ChangeCauseAnnotation = "kubernetes.io/change-cause"

// Revision is a revision that a Pod2 can be rolled back to.
type Revision struct {
	Object  *appsv1.ControllerRevision
	Content Content
	// Wanted is true if the spec has this content now.
	Wanted bool
}

// History returns the revisions of a Pod2 among the given objects, by number. The
// revision of the spec is missing until the controller has seen that spec.
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
