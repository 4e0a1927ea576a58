package pod2

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

// claimState returns a state with the template data of 1Gi, or of another size
// (claims=2Gi). The words whenDeleted and whenScaled mean Delete. Each claim is one line:
//
//	data-web-0                            of this Pod2, bound, 1Gi of the class fast
//	data-web-1 bare size=2Gi pending      without labels
//	data-web-2 label=db of=StatefulSet/db owned earlier terminating surge
//	data-web-3 class=slow capacity=500Mi
func claimState(t *testing.T, spec string, pods, claims []string) State {
	t.Helper()
	size, rest := "1Gi", []string{}
	policy := &v1.Pod2ClaimRetentionPolicy{}
	for word := range strings.FieldsSeq(spec) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "claims":
			size = value
		case "whenDeleted":
			policy.WhenDeleted = v1.DeleteClaim
		case "whenScaled":
			policy.WhenScaled = v1.DeleteClaim
		default:
			rest = append(rest, word)
		}
	}
	s := state(t, strings.Join(rest, " "), pods...)
	template := claimTemplate("data", 1)
	template.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	s.Pod2.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{template}
	s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy = policy
	s.StorageClasses = storageClasses()
	for _, line := range claims {
		s.Claims = append(s.Claims, claimLine(t, line))
	}
	return s
}

func claimLine(t *testing.T, line string) *corev1.PersistentVolumeClaim {
	t.Helper()
	words := strings.Fields(line)
	pod := strings.TrimPrefix(words[0], "data-")
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: words[0], UID: types.UID("u-" + pod), Labels: map[string]string{
			v1.Pod2Label: "web", v1.PodIndexLabel: strings.TrimPrefix(pod, "web-"),
		}},
		Spec:   claimTemplate("data", 1).Spec,
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	own := metav1.OwnerReference{APIVersion: v1.GroupVersion.String(), Kind: "Pod2", Name: "web", UID: uid}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "bare":
			c.Labels = nil
		case "label":
			c.Labels[v1.Pod2Label] = value
		case "owned":
			c.OwnerReferences = []metav1.OwnerReference{own}
		case "earlier":
			own.UID = "u-earlier"
			c.OwnerReferences = []metav1.OwnerReference{own}
		case "of":
			kind, name, _ := strings.Cut(value, "/")
			c.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: "u-other", Controller: ptr.To(true)}}
		case "terminating":
			c.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "surge":
			c.Annotations = map[string]string{v1.SurgeClaimAnnotation: "true"}
		case "size":
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(value)
		case "capacity":
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(value)}
		case "pending":
			c.Status.Phase = corev1.ClaimPending
		case "class":
			c.Spec.StorageClassName = ptr.To(value)
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	return c
}

type claimTest struct {
	name, spec   string
	pods, claims []string
	want         string
}

func runClaims(t *testing.T, tests []claimTest, of func(State) string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := claimState(t, tt.spec, tt.pods, tt.claims)
			if got := of(s); got != block(tt.want) {
				t.Errorf("got\n%s\nwant\n%s", got, block(tt.want))
			}
			if why := undone(s); why != "" && Diff(s).Empty() {
				t.Errorf("the plan is empty, but the work is not done: %s", why)
			}
		})
	}
}

func claimActions(s State) string { return lines(s, "create", "delete", "change PVC", "grow") }

func TestClaims(t *testing.T) {
	runClaims(t, []claimTest{
		{"created before their pods", "replicas=2", nil, nil, `
			create PVC data-web-0
			create web-0: missing
			create PVC data-web-1
			create web-1: missing`},
		{"existing ones are used, from any creator", "replicas=2", nil, []string{"data-web-0 bare", "data-web-1"}, `
			change PVC data-web-0: labels
			create web-0: missing
			create web-1: missing`},
		{"of another controller: its replica waits", "replicas=2", nil, []string{"data-web-0 bare of=Database/db"}, `
			create PVC data-web-1
			create web-1: missing`},
		{"of another Pod2", "replicas=1", nil, []string{"data-web-0 label=other"}, ""},
		{"being deleted: its replica waits", "replicas=1", nil, []string{"data-web-0 terminating"}, ""},
		{"owned by an earlier Pod2: its replica waits", "replicas=1", nil, []string{"data-web-0 earlier"}, ""},
		{"lost while the pod exists", "replicas=1", []string{"web-0"}, nil, `create PVC data-web-0: its pod needs it`},
		{"not for a terminating pod", "replicas=1", []string{"web-0 terminating"}, nil, ""},
		{"of scaled-down ordinals: kept", "replicas=1", []string{"web-0"}, []string{"data-web-0", "data-web-1", "data-web-7"}, ""},
		{"or deleted, once the pod is gone", "replicas=1 whenScaled", []string{"web-0", "web-1 terminating"}, []string{"data-web-0", "data-web-1", "data-web-7", "data-web-8 bare"}, `
			delete PVC data-web-7 (uid u-web-7): scaled down`},
		{"of another owner's pod: kept", "replicas=1 whenScaled", []string{"web-0", "web-1 bare"}, []string{"data-web-0", "data-web-1"}, ""},
		{"of reserved ordinals: deleted too", "replicas=2 reserve=1 whenScaled", []string{"web-0", "web-2"}, []string{"data-web-0", "data-web-1", "data-web-2"}, `
			delete PVC data-web-1 (uid u-web-1): scaled down`},
		{"owned by the Pod2 if it says so", "replicas=1 whenDeleted", []string{"web-0"}, []string{"data-web-0", "data-web-1", "data-web-2 owned"}, `
			change PVC data-web-0: to be deleted with the Pod2`},
		{"kept after a change, also of scaled-down replicas", "replicas=1", []string{"web-0"}, []string{"data-web-0 owned", "data-web-1 owned"}, `
			change PVC data-web-0: to be kept when the Pod2 is deleted
			change PVC data-web-1: to be kept when the Pod2 is deleted`},
		{"of other names", "replicas=0 whenScaled", nil, []string{"log-web-0", "data-webs-0", "data-web-x"}, ""},
		{"a Pod2 that is being deleted", "replicas=1 going whenScaled", nil, []string{"data-web-5"}, ""},
	}, claimActions)
}

func TestSurgeClaims(t *testing.T) {
	old := []string{"web-0 old", "web-1 old"}
	have := []string{"data-web-0", "data-web-1"}
	runClaims(t, []claimTest{
		{"created with it", "replicas=2 surge=1 max=0", old, have, `
			create PVC data-web-2
			create web-2: missing`},
		{"kept while it exists", "replicas=2 surge=1 max=0", []string{"web-0", "web-1", "web-2 terminating"}, append(have, "data-web-2 surge owned"), ""},
		{"deleted with it under any policy", "replicas=2 surge=1 max=0", []string{"web-0", "web-1"}, append(have, "data-web-2 surge owned"), `
			delete PVC data-web-2 (uid u-web-2): of a surge replica`},
		{"an existing one is used and kept", "replicas=2 surge=1 max=0", old, append(have, "data-web-2"), `create web-2: missing`},
		{"later used by a replica", "replicas=3 surge=1 max=0", []string{"web-0", "web-1", "web-2"}, append(have, "data-web-2 surge owned"), `
			change PVC data-web-2: no longer belongs to a surge replica`},
		{"of another owner: reported", "replicas=2 surge=1 max=0", old, append(have, "data-web-2 of=Database/db"), ""},
	}, claimActions)
}

func TestClaimConditions(t *testing.T) {
	runClaims(t, []claimTest{
		{"taken", "replicas=2", nil, []string{"data-web-0 of=Database/db", "data-web-1 label=other"}, "False ClaimTaken: " +
			"PersistentVolumeClaim data-web-0 is owned by Database db: the replica waits until it is deleted or its owner releases it (the controller notices within 30 seconds); " +
			"PersistentVolumeClaim data-web-1 is owned by Pod2 other: the replica waits until it is deleted or its owner releases it (the controller notices within 30 seconds)"},
		{"terminating", "replicas=1", nil, []string{"data-web-0 terminating"}, "False WaitingForDeletion: PersistentVolumeClaim data-web-0 is being deleted"},
		{"of an earlier Pod2", "replicas=1", nil, []string{"data-web-0 earlier"}, "False WaitingForDeletion: PersistentVolumeClaim data-web-0 of an earlier Pod2 web still exists"},
	}, ready)
}

func TestClaimsGrow(t *testing.T) {
	runClaims(t, []claimTest{
		{"all have the right size", "replicas=1", []string{"web-0"}, []string{"data-web-0 capacity=1Gi"}, "True ClaimsResized: no PersistentVolumeClaim is smaller than its template"},
		{"larger ones stay", "replicas=1", []string{"web-0"}, []string{"data-web-0 size=5Gi"}, "True ClaimsResized: no PersistentVolumeClaim is smaller than its template"},
		{"grows", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0"}, `
			grow PVC data-web-0: 2Gi instead of 1Gi
			False Resizing: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi`},
		{"the driver is resizing it", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 size=2Gi capacity=1Gi"}, "False Resizing: PersistentVolumeClaim data-web-0 has 1Gi of 2Gi so far"},
		{"the class forbids it", "replicas=2 claims=2Gi", []string{"web-0", "web-1"}, []string{"data-web-0 class=slow", "data-web-1"}, `
			grow PVC data-web-1: 2Gi instead of 1Gi
			False ExpansionNotAllowed: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi, but StorageClass slow does not allow expansion (allowVolumeExpansion)`},
		{"the class does not exist", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 class=gone"},
			"False ExpansionNotAllowed: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi, but its StorageClass gone does not exist"},
		{"no class", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 class="},
			"False ExpansionNotAllowed: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi, but it has no StorageClass, so it cannot be expanded"},
		{"not before it is bound", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 pending"},
			"False WaitingForVolume: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi: the controller resizes it once it is bound"},
		{"not with other changes", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 bare"}, `
			change PVC data-web-0: labels
			False Resizing: PersistentVolumeClaim data-web-0 requests 1Gi and its template requests 2Gi`},
		{"not of a scaled-down replica or another owner", "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0 of=Database/db", "data-web-1"},
			"True ClaimsResized: no PersistentVolumeClaim is smaller than its template"},
	}, func(s State) string {
		c := meta.FindStatusCondition(Diff(s).Status.Conditions, v1.ConditionClaimsResized)
		return strings.TrimSpace(claimActions(s) + "\n" + string(c.Status) + " " + c.Reason + ": " + c.Message)
	})
}

// A refused resize does not affect the replicas.
func TestFailedResize(t *testing.T) {
	s := claimState(t, "replicas=1 claims=2Gi", []string{"web-0"}, []string{"data-web-0"})
	var got []string
	for _, c := range WithFailures(s, []plan.Failure{{Reason: ReasonFailedResize, Message: "exceeded quota"}}).Conditions {
		got = append(got, c.Type+" "+string(c.Status)+" "+c.Reason)
	}
	const want = "Ready True AllReplicasAvailable, Available True MinimumReplicasAvailable, Progressing True Complete, ClaimsResized False FailedResize"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestMadeClaim(t *testing.T) {
	s := claimState(t, "replicas=1 whenDeleted", nil, nil)
	template := &s.Pod2.Spec.VolumeClaimTemplates[0]
	template.Labels, template.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	s.Pod2.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	creation := Diff(s).Create[0]
	claim := creation.Claims()[0]
	if len(claim.Labels) != 3 || claim.Labels[v1.Pod2Label] != "web" || claim.Labels[v1.PodIndexLabel] != "0" || claim.Labels["a"] != "b" || claim.Annotations["c"] != "d" {
		t.Errorf("labels %v, annotations %v", claim.Labels, claim.Annotations)
	}
	if owner := claim.OwnerReferences; len(owner) != 1 || owner[0].UID != uid || owner[0].Controller != nil || owner[0].BlockOwnerDeletion != nil || !IsOwner(&owner[0]) {
		t.Errorf("owners %v", owner)
	}
	if claim.Spec.Resources.Requests.Storage().String() != "1Gi" || claim.Annotations[v1.SurgeClaimAnnotation] != "" {
		t.Errorf("claim %v", claim)
	}
	volumes := creation.Pod().Spec.Volumes
	if len(volumes) != 2 || volumes[1].EmptyDir != nil || volumes[1].PersistentVolumeClaim.ClaimName != "data-web-0" {
		t.Errorf("volumes %v", volumes)
	}
	s = claimState(t, "replicas=1 surge=1 max=0", []string{"web-0 old"}, []string{"data-web-0"})
	claim = Diff(s).Create[0].Claims()[0]
	if claim.Name != "data-web-1" || claim.Annotations[v1.SurgeClaimAnnotation] != "true" || len(claim.OwnerReferences) != 1 {
		t.Errorf("of a surge replica: %v", claim)
	}
}

// The size is not in the revision: a new size replaces no pod.
func TestClaimSizeIsNoRevision(t *testing.T) {
	s := claimState(t, "replicas=1", nil, nil)
	before := RevisionHash(s.Pod2)
	s.Pod2.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = gi(9)
	if RevisionHash(s.Pod2) != before {
		t.Error("a new size is a new revision")
	}
}

func TestClaimNames(t *testing.T) {
	p := state(t, "").Pod2
	p.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claimTemplate("data", 1), claimTemplate("data-web", 1)}
	for name, want := range map[string]string{
		"data-web-0": "data 0", "data-web-web-7": "data-web 7", "data-web-07": "", "data-web": "", "data-other-0": "", "data-web-0-0": "",
	} {
		got := ""
		if template, ordinal, ok := parseClaim(p, name); ok {
			got = strings.Replace(ordinals.Name(template.Name, ordinal), template.Name+"-", template.Name+" ", 1)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
