package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Pod2Done describes the remaining work for a Pod2, unless it is being deleted.
//
//   - The newest revision is that of the spec, and no more unused revisions are kept than the
//     spec allows.
//   - A replica is missing only for a reason of missingFor.
//   - A pod without a place exists only because it serves and cannot be spared yet.
//   - A terminated pod is in the backoff record, and its time to be replaced has not come.
//   - Each pod that stays has its labels.
//   - A pod is of an earlier revision only while the update may not take it.
//   - PVCs pass claimDone.
//   - The status is about the present spec, counts the pods, and is Ready only if nothing is
//     missing.
func Pod2Done(c *Cluster, p *v1.Pod2) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	u := c.update(p)
	for _, why := range []string{u.revisionsDone(), u.missing(), u.surplus(), u.backoffDone(), u.labelsDone(), u.outdated(), u.claimsDone(), u.statusDone()} {
		if why != "" {
			return why
		}
	}
	return ""
}

func (u *update) revisionsDone() string {
	r, idle := named(u.own, u.p.Status.UpdateRevision), 0
	for _, other := range u.own {
		if r != nil && other.Revision > r.Revision {
			return fmt.Sprintf("revision %s is newer than the revision of the spec", other.Name)
		}
		if hash := other.Labels[v1.PodTemplateHashLabel]; other != r && other.Name != u.p.Status.CurrentRevision &&
			!slices.ContainsFunc(u.pods, func(pod *corev1.Pod) bool { return pod.Labels[v1.PodTemplateHashLabel] == hash }) {
			idle++
		}
	}
	var content struct {
		Template corev1.PodTemplateSpec `json:"template"`
	}
	switch {
	case u.reason() == "TemplateTooLarge":
		return ""
	case named(u.Revisions, u.p.Status.UpdateRevision) == nil:
		return "there is no revision of the spec"
	case r != nil && (json.Unmarshal(r.Data.Raw, &content) != nil || !equality.Semantic.DeepEqual(content.Template, u.p.Spec.Template)):
		return fmt.Sprintf("revision %s differs from the spec", r.Name)
	case idle > int(ptr.Deref(u.p.Spec.RevisionHistoryLimit, 10)):
		return fmt.Sprintf("%d revisions are kept that no pod has", idle)
	}
	return ""
}

func (u *update) missing() string {
	before := true // all replicas with lower ordinals are available
	for place := range Ordinals(u.p).Count() {
		ordinal := Ordinals(u.p).At(place)
		name := ordinals.Name(u.p.Name, ordinal)
		pod := named(u.Pods, name)
		if pod == nil && u.missingFor(name, before) == "" {
			return fmt.Sprintf("pod %s is missing", name)
		}
		before = before && pod != nil && metav1.IsControlledBy(pod, u.p) && u.available(pod)
	}
	return ""
}

// missingFor returns why a replica may be missing, "" if it may not. before says that all
// earlier replicas are available.
func (u *update) missingFor(name string, before bool) string {
	old := func(pod *corev1.Pod) bool { return !u.updated(pod) }
	for _, t := range u.p.Spec.VolumeClaimTemplates {
		if c := named(u.Claims, t.Name+"-"+name); c != nil && u.notOurs(c) {
			return "its PVC has another owner, or is being deleted"
		}
	}
	switch {
	case len(u.pods) >= Ordinals(u.p).Count()+MaxSurge(u.p):
		return "the Pod2 has as many pods as it may have"
	case u.p.Spec.UpdateStrategy.Type == v1.Recreate && slices.ContainsFunc(u.pods, old):
		return "Recreate deletes all pods first"
	case u.p.Spec.PodManagementPolicy == v1.OrderedReadyPodManagement && !before:
		return "an earlier replica is not available"
	case len(name) > validation.DNS1123LabelMaxLength:
		return "its name is too long"
	case u.reason() == "TemplateTooLarge":
		return "there is no revision to create it from"
	}
	return ""
}

// surplus returns the first pod that has no place and can be spared.
func (u *update) surplus() string {
	available, going := u.availables(), false
	beyond := func(pod *corev1.Pod) bool { _, surges := u.place(pod.Name); return !surges }
	for _, pod := range u.pods {
		place, _ := u.place(pod.Name)
		going = going || place < 0 && pod.DeletionTimestamp != nil
	}
	for _, pod := range u.pods {
		spared := !u.available(pod) || available > LeastAvailable(u.p)
		oneByOne := u.p.Spec.PodManagementPolicy == v1.OrderedReadyPodManagement && going
		if beyond(pod) && pod.DeletionTimestamp == nil && spared && !oneByOne {
			return fmt.Sprintf("pod %s has no place", pod.Name)
		}
	}
	return ""
}

// backoffDone checks the backoff record. It names only replicas. Each terminated replica is
// in it, for no longer than the longest delay.
func (u *update) backoffDone() string {
	var records map[string]struct {
		UID   types.UID `json:"uid"`
		Since time.Time `json:"since"`
	}
	_ = json.Unmarshal([]byte(u.p.Annotations[v1.BackoffAnnotation]), &records)
	for name, r := range records {
		if _, surges := u.place(name); !surges || r.Since.After(u.Now) {
			return fmt.Sprintf("the backoff record has %s, which is not a replica or has a time in the future", name)
		}
	}
	for _, pod := range u.pods {
		replica, _ := u.place(pod.Name)
		if !over(pod) || pod.DeletionTimestamp != nil || replica < 0 || !u.updated(pod) {
			continue
		}
		r, recorded := records[pod.Name]
		switch {
		case len(records) < 1000 && (!recorded || r.UID != pod.UID):
			return fmt.Sprintf("pod %s has terminated, and is not in the backoff record", pod.Name)
		case recorded && !u.Now.Before(r.Since.Add(5*time.Minute)):
			return fmt.Sprintf("pod %s has terminated, and its backoff is past", pod.Name)
		}
	}
	return ""
}

// labelsDone checks the labels of the pods. Each pod has the labels of the controller. A
// pod that serves, or will serve, also has the labels of its Pod2, unless its template has
// other values or a user changed them since.
func (u *update) labelsDone() string {
	for _, pod := range u.pods {
		ordinal, replica := ordinals.Parse(u.p.Name, pod.Name)
		is := []string{pod.Labels[v1.ManagedLabel], pod.Labels[v1.Pod2Label], pod.Labels[v1.PodIndexLabel]}
		if want := []string{"true", u.p.Name, strconv.Itoa(int(ordinal))}; replica && !slices.Equal(is, want) {
			return fmt.Sprintf("pod %s has the labels %q, and should have %q", pod.Name, is, want)
		}
		if place, _ := u.place(pod.Name); pod.DeletionTimestamp != nil || !u.updated(pod) || place < 0 || over(pod) {
			continue
		}
		var given map[string]string
		_ = json.Unmarshal([]byte(pod.Annotations[v1.Pod2LabelsAnnotation]), &given)
		for key, value := range u.p.Labels {
			_, template := u.p.Spec.Template.Labels[key]
			ours := slices.Contains([]string{v1.ManagedLabel, v1.Pod2Label, v1.PodIndexLabel, v1.PodTemplateHashLabel}, key)
			if !template && !ours && pod.Labels[key] != value && given[key] != value {
				return fmt.Sprintf("pod %s has %s=%q, and its Pod2 has %q", pod.Name, key, pod.Labels[key], value)
			}
		}
	}
	return ""
}

// outdated returns the first replica of an earlier revision that the update may take now.
// It ignores pods that wait for a node to act, or for an address.
func (u *update) outdated() string {
	strategy := u.p.Spec.UpdateStrategy
	partition := 0 // a place of -1 is lower
	if r := strategy.RollingUpdate; r != nil && strategy.Type != v1.Recreate {
		partition = int(r.Partition)
	}
	if u.p.Spec.Paused || strategy.Type == v1.OnDelete || strategy.InPlace == v1.InPlaceIfPossible || u.reason() == "TemplateTooLarge" {
		return ""
	}
	for _, pod := range u.pods {
		place, _ := u.place(pod.Name)
		spared := !Serves(pod) || u.availables() > LeastAvailable(u.p) || strategy.Type == v1.Recreate
		if place >= partition && pod.DeletionTimestamp == nil && !u.updated(pod) && spared && !u.addressKept(pod) && pod.Annotations[v1.InPlaceAnnotation] == "" {
			return fmt.Sprintf("pod %s has an earlier revision", pod.Name)
		}
	}
	return ""
}

func (u *update) statusDone() string {
	replicas := int32(0)
	for _, pod := range u.pods {
		if pod.DeletionTimestamp == nil && !over(pod) {
			replicas++
		}
	}
	status := u.p.Status
	switch {
	case status.ObservedGeneration != u.p.Generation || u.ready == nil || u.ready.ObservedGeneration != u.p.Generation:
		return "L5: the status is about an earlier spec"
	case status.Replicas != replicas || status.AvailableReplicas != int32(u.availables()):
		return fmt.Sprintf("the status counts %d replicas, %d of them available, and there are %d and %d", status.Replicas, status.AvailableReplicas, replicas, u.availables())
	case u.ready.Status == metav1.ConditionTrue:
		if why := u.Lacks(u.p); why != "" {
			return "the Pod2 is Ready, but " + why
		}
	}
	return ""
}

// Lacks says which part of a Pod2 a user misses: each replica must exist, be controlled by
// the Pod2, and be available.
func (c *Cluster) Lacks(p *v1.Pod2) string {
	for place := range Ordinals(p).Count() {
		name := ordinals.Name(p.Name, Ordinals(p).At(place))
		switch pod := named(c.Pods, name); {
		case pod == nil:
			return name + " is missing"
		case !metav1.IsControlledBy(pod, p):
			return name + " is not controlled by its Pod2"
		case !Available(pod, time.Duration(p.Spec.MinReadySeconds)*time.Second, c.Now):
			return name + " is not available"
		}
	}
	return ""
}
