package pod2

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// For each spec that the API server admits, nothing panics, the promises hold on the way,
// and the state converges: L1 and L2.
func FuzzSpec(f *testing.F) {
	for _, spec := range []string{
		`{"template":{"spec":{"containers":[{"name":"c","image":"a"}]}}}`,
		`{"replicas":3,"ordinals":{"start":2147483647},"reserveOrdinals":[1,1,0],"minReadySeconds":1,"progressDeadlineSeconds":2,
		  "networks":[{"name":"blue","addresses":["10.0.0.2","x"]},{"name":"blue"}],"serviceName":"s","podManagementPolicy":"OrderedReady"}`,
		`{"replicas":2,"updateStrategy":{"type":"RollingUpdate","inPlace":"Never","rollingUpdate":{"maxSurge":"100%","maxUnavailable":0,"partition":7}},
		  "revisionHistoryLimit":0,"template":{"metadata":{"labels":{"a":"b","samplecrd.k8s.io/pod2":"x"},"annotations":{"samplecrd.k8s.io/networks":"blue,,"}},
		  "spec":{"schedulingGates":[{"name":"samplecrd.k8s.io/addresses"}],"hostname":"h","initContainers":[{"name":"c"}],"containers":[{"name":"c"},{"name":"c"}]}}}`,
		`{"replicas":1,"paused":true,"updateStrategy":{"type":"Recreate"},"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete","whenScaled":"Delete"},
		  "volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}},{"metadata":{"name":"data"}}]}`,
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s := State{Now: now, Pod2: &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Generation: 1}}}
		if err := json.Unmarshal([]byte(spec), &s.Pod2.Spec); err != nil {
			return
		}
		v1.SetObjectDefaults_Pod2(s.Pod2)
		if !admitted(&s.Pod2.Spec) {
			return
		}
		w := &world{State: &s, dice: rand.New(rand.NewPCG(0, 0))}
		w.converge(t)
		if meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionReady) == nil {
			t.Errorf("no condition reports it\n%s", describe(s))
		}
	})
}

var percentage = regexp.MustCompile(`^(100|[0-9]{1,2})%$`)

// admitted returns a spec that the schema admits, as far as it matters here. More than
// six replicas would only take longer.
func admitted(spec *v1.Pod2Spec) bool {
	bound := func(b *intstr.IntOrString) bool {
		return b == nil || b.Type == intstr.Int && b.IntVal >= 0 || b.Type == intstr.String && percentage.MatchString(b.StrVal)
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && (!bound(r.MaxSurge) || !bound(r.MaxUnavailable) || r.Partition < 0) {
		return false
	}
	if spec.Ordinals != nil && spec.Ordinals.Start < 0 {
		return false
	}
	return *spec.Replicas >= 0 && *spec.Replicas <= 6 && spec.MinReadySeconds >= 0 && len(spec.Template.Spec.Containers) > 0 &&
		*spec.ProgressDeadlineSeconds > spec.MinReadySeconds && *spec.RevisionHistoryLimit >= 0 && spec.MinReadySeconds < aDay
}

var ourKeys = []string{
	v1.Pod2Label, v1.PodIndexLabel, v1.PodTemplateHashLabel, v1.ManagedLabel, v1.NetworksAnnotation, v1.Pod2RequestAnnotation, v1.Pod2LabelsAnnotation,
	v1.AddressesAnnotation, v1.MultusAnnotation, v1.InPlaceAnnotation, v1.BackoffAnnotation, v1.SurgeClaimAnnotation, v1.RevisionNetworksAnnotation,
}

// Someone writes into the metadata of all pods, of the Pod2 and of its revisions at once.
// The promises hold, above all S5: replicas are replaced one by one, if at all, and in
// the end all are available.
func FuzzCorruptMetadata(f *testing.F) {
	for i, value := range []string{"", "x", "{", `{"containers":{"app":{"id":"id-1","image":"a"}}}`, `{"web-0":{"uid":"u-web-0","failures":2147483647}}`, "blue,,", "null"} {
		for key := range ourKeys {
			f.Add(byte(key), value, byte(i))
		}
	}
	var healthy *State
	f.Fuzz(func(t *testing.T, key byte, value string, how byte) {
		if healthy == nil {
			s := state(t, "replicas=3 networks=blue inplace", "web-0", "web-1", "web-2")
			w := &world{State: &s, dice: rand.New(rand.NewPCG(0, 0))}
			w.converge(t)
			healthy = &s
		}
		s := State{Now: healthy.Now, Pod2: healthy.Pod2.DeepCopy(), Networks: healthy.Networks}
		objects := []metav1.Object{s.Pod2}
		for i, pod := range healthy.Pods {
			s.Pods = append(s.Pods, pod.DeepCopy())
			objects = append(objects, s.Pods[i])
		}
		for i, r := range healthy.Revisions {
			s.Revisions = append(s.Revisions, r.DeepCopy())
			objects = append(objects, s.Revisions[i])
		}
		w := &world{State: &s, dice: rand.New(rand.NewPCG(0, 0))}
		for _, o := range objects {
			corrupt(o, ourKeys[int(key)%len(ourKeys)], value, how)
		}
		w.converge(t)
		ready := meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionReady)
		if ready.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s\n%s", ready.Reason, ready.Message, describe(s))
		}
	})
}

// corrupt changes one object's metadata as someone might.
func corrupt(o metav1.Object, key, value string, how byte) {
	set := func(m map[string]string) map[string]string {
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value
		return m
	}
	owners := o.GetOwnerReferences()
	switch how % 8 {
	case 0:
		o.SetLabels(set(o.GetLabels()))
	case 1:
		o.SetAnnotations(set(o.GetAnnotations()))
	case 2:
		delete(o.GetLabels(), key)
	case 3:
		delete(o.GetAnnotations(), key)
	case 4:
		o.SetLabels(nil)
		o.SetAnnotations(nil)
	case 5:
		o.SetOwnerReferences(nil)
	case 6:
		for i := range owners {
			owners[i].Controller = ptr.To(false)
		}
	case 7:
		for i := range owners {
			owners[i].Name, owners[i].Kind = value, value
		}
	}
	if pod, ok := o.(*corev1.Pod); ok && how&8 != 0 {
		pod.Spec.Hostname = value
	}
}
