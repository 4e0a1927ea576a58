package crontab

import (
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) // a Friday

const uid = types.UID("u-ct")

// state parses the CronTab "ct" from words ('_' means a space) such as
//
//	spec=*/5_*_*_*_* zone=Europe/Berlin suspend policy=Allow deadline=30 replicas=3 completions=9
//	networks=blue@data0,green exists=blue      exists: those that exist, by default all
//	networks=blue terminating=blue             it is being deleted
//	going wait finalizer=other           wait: the finalizer that waits
//
// and each other object from one line; each may be going, bare (it has no owner), or
// of=Kind/name (it has another):
//
//	cronjob                              as the CronTab says, a day old
//	cronjob earlier                      of an earlier CronTab ct
//	cronjob schedule=@daily zone=UTC suspended resumed image=old sidecar ungated
//	        limits ttl labels            changed by someone
//	cronjob last=5m active=2             last run five minutes ago, two are running
//	job ct-1                             a run; of=CronJob/ct: of a former CronJob
//	pod ct-1-a over unlabelled waits=no_address_is_free
//	                                     of the Job ct-1; unlabelled: without the CronTab's label
//	address 10.0.0.5 ct-1-a Resting      in an AddressBlock of blue, Bound without a state
func state(t testing.TB, spec string, objects ...string) State {
	t.Helper()
	s := State{Now: now, Zone: time.UTC, CronTab: &v1.CronTab{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ct", UID: uid, Generation: 1},
		Spec:       v1.CronTabSpec{CronSpec: "*/5 * * * *", Image: "app:1"},
	}}
	exists, terminating := "all", ""
	for word := range strings.FieldsSeq(spec) {
		key, value, _ := strings.Cut(word, "=")
		value = strings.ReplaceAll(value, "_", " ")
		switch key {
		case "spec":
			s.CronTab.Spec.CronSpec = value
		case "zone":
			s.CronTab.Spec.TimeZone = &value
			zone, err := time.LoadLocation(value)
			if s.Zone = zone; err != nil {
				s.Zone, s.ZoneProblem = nil, err.Error()
			}
		case "suspend":
			s.CronTab.Spec.Suspend = ptr.To(true)
		case "policy":
			s.CronTab.Spec.ConcurrencyPolicy = batchv1.ConcurrencyPolicy(value)
		case "networks":
			for network := range strings.SplitSeq(value, ",") {
				name, iface, _ := strings.Cut(network, "@")
				s.CronTab.Spec.Networks = append(s.CronTab.Spec.Networks, v1.CronTabNetwork{Name: name, Interface: iface})
			}
		case "exists":
			exists = value
		case "terminating":
			terminating = value
		case "replicas":
			s.CronTab.Spec.Replicas = ptr.To(int32(number(t, value)))
		case "completions":
			s.CronTab.Spec.Completions = ptr.To(int32(number(t, value)))
		case "deadline":
			s.CronTab.Spec.StartingDeadlineSeconds = ptr.To(int64(number(t, value)))
		case "going":
			s.CronTab.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "wait":
			s.CronTab.Finalizers = append(s.CronTab.Finalizers, v1.WaitFinalizer)
		case "finalizer":
			s.CronTab.Finalizers = append(s.CronTab.Finalizers, value)
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	for _, n := range s.CronTab.Spec.Networks {
		if exists == "all" || strings.Contains(exists, n.Name) {
			network := &samplev1.Network{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
			if n.Name == terminating {
				network.DeletionTimestamp = ptr.To(metav1.NewTime(now))
			}
			s.Networks = append(s.Networks, network)
		}
	}
	for _, line := range objects {
		words := strings.Fields(line)
		switch words[0] {
		case "cronjob":
			s.CronJob = cronJob(t, s, words[1:])
			s.CronJobZone, _ = time.LoadLocation(ptr.Deref(s.CronJob.Spec.TimeZone, ""))
		case "job":
			job := &batchv1.Job{}
			object(t, job, "CronJob", "ct", "u-cj", words[1:])
			s.Jobs = append(s.Jobs, job)
		case "pod":
			s.Pods = append(s.Pods, pod(t, words[1:]))
		case "address":
			s.Blocks = append(s.Blocks, block(t, words[1:]))
		default:
			t.Fatalf("unknown object: %s", line)
		}
	}
	return s
}

// cronJob returns the CronJob that the API server would hold, with its defaults.
func cronJob(t testing.TB, s State, words []string) *batchv1.CronJob {
	t.Helper()
	valid := s
	valid.CronTab = s.CronTab.DeepCopy()
	valid.Zone = time.UTC
	if look(valid).problem != nil {
		valid.CronTab.Spec.CronSpec = "*/5 * * * *"
	}
	c := look(valid).newCronJob()
	c.UID, c.ResourceVersion, c.CreationTimestamp = "u-cj", "7", metav1.NewTime(now.Add(-24*time.Hour))
	template := &c.Spec.JobTemplate.Spec.Template.Spec
	template.DNSPolicy = corev1.DNSClusterFirst
	template.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "schedule":
			c.Spec.Schedule = strings.ReplaceAll(value, "_", " ")
		case "zone":
			c.Spec.TimeZone = &value
		case "suspended", "resumed":
			c.Spec.Suspend = ptr.To(key == "suspended")
		case "image":
			template.Containers[0].Image = value
		case "sidecar":
			template.Containers = append(template.Containers, corev1.Container{Name: "sidecar"})
		case "ungated":
			template.SchedulingGates = nil
		case "limits":
			c.Spec.JobTemplate.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
		case "ttl":
			c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
		case "labels":
			c.Labels, c.Spec.JobTemplate.Labels = map[string]string{"team": "a"}, nil
		case "last":
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			c.Status.LastScheduleTime = ptr.To(metav1.NewTime(now.Add(-d)))
			c.Status.LastSuccessfulTime = ptr.To(metav1.NewTime(now.Add(-d + time.Second)))
		case "active":
			c.Status.Active = make([]corev1.ObjectReference, number(t, value))
		default:
			owned(t, c, word)
		}
	}
	return c
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// owned parses the words for the owner of an object and its deletion.
func owned(t testing.TB, o metav1.Object, word string) {
	t.Helper()
	refs := o.GetOwnerReferences()
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "going":
		o.SetDeletionTimestamp(ptr.To(metav1.NewTime(now)))
	case "bare":
		refs = nil
	case "earlier":
		refs[0].UID = "u-earlier"
	case "of":
		refs[0].UID = "u-other"
		refs[0].Kind, refs[0].Name, _ = strings.Cut(value, "/")
	default:
		t.Fatalf("unknown word: %s", word)
	}
	o.SetOwnerReferences(refs)
}

func object(t testing.TB, o metav1.Object, ownerKind, owner string, ownerUID types.UID, words []string) {
	t.Helper()
	o.SetNamespace("default")
	o.SetName(words[0])
	o.SetUID(types.UID("u-" + words[0]))
	o.SetLabels(map[string]string{v1.CronTabLabel: "ct"})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "batch/v1", Kind: ownerKind, Name: owner, UID: ownerUID, Controller: ptr.To(true)}})
	for _, word := range words[1:] {
		owned(t, o, word)
	}
}

// pod returns a pod of the Job whose name its own begins with.
func pod(t testing.TB, words []string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	var others []string
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "over":
			p.Status.Phase = corev1.PodSucceeded
		case "waits":
			p.Status.Conditions = []corev1.PodCondition{{Type: samplev1.ConditionAddressesBound, Status: corev1.ConditionFalse, Message: strings.ReplaceAll(value, "_", " ")}}
		case "unlabelled":
			defer func() { p.Labels = nil }()
		default:
			others = append(others, word)
		}
	}
	job := words[0][:strings.LastIndex(words[0], "-")]
	object(t, p, "Job", job, types.UID("u-"+job), append(words[:1:1], others...))
	return p
}

func block(t testing.TB, words []string) *samplev1.AddressBlock {
	t.Helper()
	job := words[1][:strings.LastIndex(words[1], "-")]
	e := samplev1.AddressEntry{Address: words[0], Pod: words[1], PodUID: types.UID("u-" + words[1]), State: samplev1.AddressBound, Owner: samplev1.AddressOwner{Kind: "Job", Name: job}}
	for _, word := range words[2:] {
		if kind, name, ok := strings.Cut(strings.TrimPrefix(word, "of="), "/"); ok {
			e.Owner = samplev1.AddressOwner{Kind: kind, Name: name}
		} else {
			e.State = samplev1.AddressState(word)
		}
	}
	return &samplev1.AddressBlock{Spec: samplev1.AddressBlockSpec{Network: "blue", Entries: []samplev1.AddressEntry{e}}}
}

type diffTest struct {
	name    string
	spec    string
	objects []string
	want    string
}

func runDiff(t *testing.T, tests []diffTest, render func(State) string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := render(state(t, tt.spec, tt.objects...)), strings.TrimSpace(strings.ReplaceAll(tt.want, "\n\t\t\t", "\n")); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// lines renders the parts of a plan that begin with one of the words.
func lines(s State, words ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(Diff(s).String()) {
		for _, w := range words {
			if strings.HasPrefix(line, w) {
				kept.WriteString(line)
			}
		}
	}
	return strings.TrimSuffix(kept.String(), "\n")
}
