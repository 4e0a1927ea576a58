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

// Pod2Done says what is left to do for a Pod2, unless it is being deleted:
//
//   - what the spec says is the newest revision, and no more unused ones are kept than it allows;
//   - a replica is missing only for a reason that missingFor has;
//   - a pod without a place is there only because it serves, and cannot be spared yet;
//   - a pod that terminated is on record, and its time to be replaced has not come;
//   - each pod that stays is found by its labels;
//   - a pod is of an earlier revision only while the update may not take it;
//   - claims are as claimDone says;
//   - the status is of the spec as it is, counts the pods, and says Ready only if nothing is lacking.
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
			return fmt.Sprintf("revision %s is newer than that of the spec", other.Name)
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
		return fmt.Sprintf("revision %s is not what the spec says", r.Name)
	case idle > int(ptr.Deref(u.p.Spec.RevisionHistoryLimit, 10)):
		return fmt.Sprintf("%d revisions are kept that nothing is of", idle)
	}
	return ""
}

func (u *update) missing() string {
	before := true // all replicas of lower ordinals are available
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

// missingFor is why a replica may be missing; "" if it may not. before says that all replicas before it
// are available.
func (u *update) missingFor(name string, before bool) string {
	old := func(pod *corev1.Pod) bool { return !u.updated(pod) }
	for _, t := range u.p.Spec.VolumeClaimTemplates {
		if c := named(u.Claims, t.Name+"-"+name); c != nil && u.notOurs(c) {
			return "its claim is another's, or on its way out"
		}
	}
	switch {
	case len(u.pods) >= Ordinals(u.p).Count()+MaxSurge(u.p):
		return "as many pods as there may be have still to go"
	case u.p.Spec.UpdateStrategy.Type == v1.Recreate && slices.ContainsFunc(u.pods, old):
		return "all pods of a Recreate go first"
	case u.p.Spec.PodManagementPolicy == v1.OrderedReadyPodManagement && !before:
		return "one before it is not available"
	case len(name) > validation.DNS1123LabelMaxLength:
		return "its name is too long"
	case u.reason() == "TemplateTooLarge":
		return "there is no revision to make it from"
	}
	return ""
}

// surplus is the first pod that has no place and can be spared.
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

// backoffDone: the record is of replicas, and each that terminated is on it, for no longer than the
// longest delay.
func (u *update) backoffDone() string {
	var records map[string]struct {
		UID   types.UID `json:"uid"`
		Since time.Time `json:"since"`
	}
	_ = json.Unmarshal([]byte(u.p.Annotations[v1.BackoffAnnotation]), &records)
	for name, r := range records {
		if _, surges := u.place(name); !surges || r.Since.After(u.Now) {
			return fmt.Sprintf("a backoff is on record for %s, which is no replica, or from the future", name)
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
			return fmt.Sprintf("the end of pod %s is not on record", pod.Name)
		case recorded && !u.Now.Before(r.Since.Add(5*time.Minute)):
			return fmt.Sprintf("pod %s has terminated, and its time has come", pod.Name)
		}
	}
	return ""
}

// labelsDone: a pod is found by our labels, and one that serves or will has those of the Pod2, unless
// its template has others, or somebody changed them since.
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
				return fmt.Sprintf("pod %s has %s=%q, and its Pod2 gives it %q", pod.Name, key, pod.Labels[key], value)
			}
		}
	}
	return ""
}

// outdated is the first replica of an earlier revision that the update may take now. What waits for a
// node to act, or for an address, is not looked at.
func (u *update) outdated() string {
	strategy := u.p.Spec.UpdateStrategy
	partition := 0 // a place of -1 is before that
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
			return fmt.Sprintf("pod %s is of an earlier revision", pod.Name)
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
		return "L5: the status is of an earlier spec"
	case status.Replicas != replicas || status.AvailableReplicas != int32(u.availables()):
		return fmt.Sprintf("the status counts %d replicas, %d of them available, and there are %d and %d", status.Replicas, status.AvailableReplicas, replicas, u.availables())
	case u.ready.Status == metav1.ConditionTrue:
		if why := u.Lacks(u.p); why != "" {
			return "it is Ready, and " + why
		}
	}
	return ""
}

// Lacks says what a user misses of a Pod2: each replica is there, is the Pod2's, and is available.
func (c *Cluster) Lacks(p *v1.Pod2) string {
	for place := range Ordinals(p).Count() {
		name := ordinals.Name(p.Name, Ordinals(p).At(place))
		switch pod := named(c.Pods, name); {
		case pod == nil:
			return name + " is missing"
		case !metav1.IsControlledBy(pod, p):
			return name + " is not of its Pod2"
		case !Available(pod, time.Duration(p.Spec.MinReadySeconds)*time.Second, c.Now):
			return name + " is not available"
		}
	}
	return ""
}
