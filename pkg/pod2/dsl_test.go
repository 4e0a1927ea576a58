package pod2

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

const uid = types.UID("u-web")

// state parses the Pod2 "web" from words such as
//
//	surge=1 partition=2 paused ordered ondelete reserve=1,4 deadline=60 progress=30s
//	replicas=3 start=5 networks=blue@eth0,green=10.1.0.10|10.1.0.11 exists=blue exhausted=blue terminating=blue
//	inplace cpu=2 restarts (the old revision has cpu 1, restarts for another)
//	labels=team:a,tier:1;tier:2 (of the Pod2;of the template)
//	hostnetwork recreate max=25% minReady=10 service=db current=old (or spec) generation=2 observed=1 going
//
// and each pod from one line; '_' means a space in values:
//
//	web-0                   owned, updated, ready for an hour
//	web-1 old notready      of another template; not ready
//	web-2 ready=5s age=1m   ready for 5 s
//	web-3 failed=Evicted    terminated; also succeeded, and ended=OOM, still Ready
//	web-1 updating=id-1 restarted=3s cpu=2/1 resize=Infeasible   changed in place
//	web-1 resizing inprogress    by the controller; the node has made room
//	web-4 terminating gated request=blue bound=no_address_is_free gate=other unschedulable=no_node
//	web-4 label=team:b label=samplecrd.k8s.io/managed given={"team":"a"}   with one label, without the other
//	web-4 orphan            owned, except for the missing owner reference
//	web-5 bare made         without owner and the controller's labels; as the template makes it
//	web-5 of=StatefulSet/x foreign  of another controller, without the controller's labels
//	web-5 bare              not owned; also of=ReplicaSet/x and earlier, of a deleted Pod2 web
func state(t testing.TB, spec string, pods ...string) State {
	t.Helper()
	s := State{Now: now, Pod2: &v1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Generation: 1},
		Spec: v1.Pod2Spec{Replicas: ptr.To[int32](1), ProgressDeadlineSeconds: ptr.To[int32](aDay), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1"}}},
		}},
	}}
	s.Pod2.Spec.UpdateStrategy.InPlace = v1.InPlaceNever
	exists, exhausted, terminating := "all", "", ""
	for word := range strings.FieldsSeq(spec) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "replicas":
			s.Pod2.Spec.Replicas = ptr.To(number(t, value))
		case "start":
			s.Pod2.Spec.Ordinals = &v1.Pod2Ordinals{Start: number(t, value)}
		case "networks":
			for n := range strings.SplitSeq(value, ",") {
				name, list, _ := strings.Cut(n, "=")
				name, iface, _ := strings.Cut(name, "@")
				network := v1.Pod2Network{Name: name, Interface: iface}
				for a := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == '|' }) {
					network.Addresses = append(network.Addresses, v1.Address(a))
				}
				s.Pod2.Spec.Networks = append(s.Pod2.Spec.Networks, network)
			}
		case "exists":
			exists = value
		case "exhausted":
			exhausted = value
		case "terminating":
			terminating = value
		case "recreate":
			s.Pod2.Spec.UpdateStrategy.Type = v1.Recreate
		case "inplace":
			s.Pod2.Spec.UpdateStrategy.InPlace = v1.InPlaceIfPossible
		case "cpu": // the old revision has 1
			s.Pod2.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}
		case "restarts": // for other cpu
			s.Pod2.Spec.Template.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		case "labels": // of the Pod2, and of the template
			mine, templates, _ := strings.Cut(value, ";")
			s.Pod2.Labels, s.Pod2.Spec.Template.Labels = parseLabels(mine), parseLabels(templates)
		case "hostnetwork":
			s.Pod2.Spec.Template.Spec.HostNetwork = true
		case "ondelete":
			s.Pod2.Spec.UpdateStrategy.Type = v1.OnDelete
		case "max":
			rolling(s.Pod2).MaxUnavailable = ptr.To(intstr.Parse(value))
		case "surge":
			rolling(s.Pod2).MaxSurge = ptr.To(intstr.Parse(value))
		case "partition":
			rolling(s.Pod2).Partition = number(t, value)
		case "paused":
			s.Pod2.Spec.Paused = true
		case "ordered":
			s.Pod2.Spec.PodManagementPolicy = v1.OrderedReadyPodManagement
		case "reserve":
			for ordinal := range strings.SplitSeq(value, ",") {
				s.Pod2.Spec.ReserveOrdinals = append(s.Pod2.Spec.ReserveOrdinals, number(t, ordinal))
			}
		case "deadline":
			s.Pod2.Spec.ProgressDeadlineSeconds = ptr.To(number(t, value))
		case "progress": // the time since the last progress, with the counters of the status
			s.Pod2.Status.LastProgressTime = ptr.To(metav1.NewTime(now.Add(-duration(t, value))))
			s.Pod2.Status.ObservedGeneration = s.Pod2.Generation
		case "progressing":
			s.Pod2.Status.Conditions = []metav1.Condition{{Type: v1.ConditionProgressing, Reason: value}}
		case "minReady":
			s.Pod2.Spec.MinReadySeconds = number(t, value)
		case "service":
			s.Pod2.Spec.ServiceName = value
		case "current":
			s.Pod2.Status.CurrentRevision = "web-" + value
		case "generation":
			s.Pod2.Generation = int64(number(t, value))
		case "observed":
			s.Pod2.Status.ObservedGeneration = int64(number(t, value))
		case "backoff":
			s.Pod2.Annotations = map[string]string{v1.BackoffAnnotation: value}
		case "going":
			s.Pod2.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	for _, n := range s.Pod2.Spec.Networks {
		if exists == "all" || strings.Contains(exists, n.Name) {
			network := &v1.Network{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
			if n.Name == exhausted {
				network.Status.Conditions = []metav1.Condition{{Type: v1.ConditionAddressesAvailable, Status: metav1.ConditionFalse, Message: "no address is free for: web-0"}}
			}
			if n.Name == terminating {
				network.DeletionTimestamp = ptr.To(metav1.NewTime(now))
			}
			s.Networks = append(s.Networks, network)
		}
	}
	for _, line := range pods {
		s.Pods = append(s.Pods, pod(t, s.Pod2, line))
	}
	s.Revisions = []*appsv1.ControllerRevision{oldRevision(s.Pod2), readRevisions(s).create}
	s.Revisions[1].UID = "u-revision"
	if s.Pod2.Status.CurrentRevision == "web-spec" {
		s.Pod2.Status.CurrentRevision = s.Revisions[1].Name
	}
	return s
}

func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for label := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(label, ":")
		labels[key] = value
	}
	return labels
}

// aDay is the deadline of progress in tests that are not about it; lines omits it.
const aDay = 24 * 60 * 60

func rolling(p *v1.Pod2) *v1.Pod2RollingUpdate {
	u := &p.Spec.UpdateStrategy
	if u.RollingUpdate == nil {
		u.RollingUpdate = &v1.Pod2RollingUpdate{}
	}
	return u.RollingUpdate
}

// oldImage is another image, unless the test is about cpu.
func oldImage(p *v1.Pod2) string {
	if app := p.Spec.Template.Spec.Containers[0]; app.Resources.Requests != nil {
		return app.Image
	}
	return "nginx:0"
}

// oldRevision is the revision of old pods.
func oldRevision(p *v1.Pod2) *appsv1.ControllerRevision {
	before := p.DeepCopy()
	app := &before.Spec.Template.Spec.Containers[0]
	if app.Image = oldImage(p); app.Resources.Requests != nil {
		app.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	}
	r := readRevisions(State{Pod2: before}).create
	r.Name, r.UID, r.Labels[v1.PodTemplateHashLabel] = "web-old", "u-old-revision", "old"
	return r
}

func number(t testing.TB, text string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func duration(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// entry returns one record of the annotation, from the given time ago.
func entry(name, uid string, failures int, ago time.Duration) string {
	return fmt.Sprintf(`%q:{"uid":%q,"failures":%d,"since":%q}`, name, uid, failures, now.Add(-ago).Format(time.RFC3339))
}

// lines renders the parts of a plan that begin with one of the words. It writes the hash
// of the spec as HASH.
func lines(s State, words ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(Diff(s).String()) {
		if line == "again in 24h0m0s\n" {
			continue
		}
		for _, w := range words {
			if strings.HasPrefix(line, w) {
				kept.WriteString(strings.ReplaceAll(line, RevisionHash(s.Pod2), "HASH"))
			}
		}
	}
	return strings.TrimSuffix(kept.String(), "\n")
}

// actions returns all parts except status and events.
func actions(s State) string {
	return lines(s, "backoff", "remove", "delete", "create", "change", "again")
}

func block(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, "\n\t\t\t", "\n")) }
