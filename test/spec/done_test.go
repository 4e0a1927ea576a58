package spec

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

type doneTest struct {
	name, want string
	spoil      func(c *Cluster)
}

// checkDone checks a state in which all is done, then breaks it in one way a test.
func checkDone(t *testing.T, cluster func() *Cluster, done func(c *Cluster) string, tests []doneTest) {
	t.Helper()
	if why := done(cluster()); why != "" {
		t.Fatalf("the intact state is reported as not done: %s", why)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := cluster()
			test.spoil(c)
			if got := done(c); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func isTrue(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue}
}

func isFalse(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse}
}

// settled is Network blue with a pod, a reserved and a resting address.
func settled() *Cluster {
	n := networkOf("10.0.0.0/29")
	n.Status = v1.NetworkStatus{Bound: 1, Reserved: 1, Resting: 1, Gateway: "10.0.0.1", Conditions: []metav1.Condition{isTrue(v1.ConditionReady)}}
	web := webOf(1)
	web.Spec.Networks = []v1.Pod2Network{{Name: "blue"}}
	return &Cluster{
		Now: now, Networks: []*v1.Network{n}, Pod2s: []*v1.Pod2{web},
		Blocks: []*v1.AddressBlock{blockOf("10.0.0.2 Bound web-0 web", "10.0.0.3 Reserved web-1 web", "10.0.0.4 Resting a")},
		Pods:   podsOf("web-0 of=web asks=blue has=10.0.0.2/29"),
	}
}

func TestNetworkDone(t *testing.T) {
	goes := func(c *Cluster) { c.Networks[0].DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	waits := func(text string) func(c *Cluster) {
		return func(c *Cluster) { c.Pods = append(c.Pods, podOf(text)) }
	}
	entry := func(c *Cluster, i int) *v1.AddressEntry { return &c.Blocks[0].Spec.Entries[i] }
	checkDone(t, settled, func(c *Cluster) string { return NetworkDone(c, "blue") }, []doneTest{
		{"no finalizer", "the finalizer is missing", func(c *Cluster) { c.Networks[0].Finalizers = nil }},
		{"not marked", "not marked", func(c *Cluster) { c.Networks[0].Annotations = nil }},
		{"finalizer remains", "sealed", func(c *Cluster) {
			goes(c)
			c.Blocks[0].Spec.Sealed, c.Blocks[0].Spec.Entries = true, nil
			c.Networks[0].Status = v1.NetworkStatus{Conditions: []metav1.Condition{{Type: v1.ConditionReady}}}
		}},
		{"keeps an address while being deleted", "is kept, but the Network is being deleted", func(c *Cluster) { goes(c) }},
		{"counted wrongly", "the status counts", func(c *Cluster) { c.Networks[0].Status.Bound = 2 }},
		{"of another spec", "about an earlier spec", func(c *Cluster) { c.Networks[0].Generation = 2 }},
		{"no address available, without a waiting pod", "no pod waits", func(c *Cluster) {
			c.Networks[0].Status.Conditions = append(c.Networks[0].Status.Conditions, isFalse(v1.ConditionAddressesAvailable))
		}},
		{"a pod has terminated", "belongs to a pod that has terminated", func(c *Cluster) { c.Pods = podsOf("web-0 of=web failed") }},
		{"another pod with the name", "belongs to a pod that has terminated", func(c *Cluster) { c.Pods[0].UID = "u2" }},
		{"adopted", "does not have its pod's owner", func(c *Cluster) { entry(c, 0).Owner.Name = "db" }},
		{"no owner requests the Network", "has no owner that requests", func(c *Cluster) { c.Pod2s[0].Spec.Networks = nil }},
		{"release requested", "should have been released", func(c *Cluster) {
			c.Networks[0].Annotations[v1.ReleaseAnnotation] = `[{"address":"10.0.0.3","pod":"web-1","owner":{"kind":"Pod2","name":"web"},"state":"Reserved","since":"2026-01-02T15:03:35Z"}]`
		}},
		{"rested", "has rested", func(c *Cluster) { entry(c, 2).Since = metav1.NewTime(now.Add(-time.Minute)) }},
		{"from the future", "a time in the future", func(c *Cluster) { entry(c, 1).Since = metav1.NewTime(now.Add(time.Minute)) }},
		{"twice", "an invalid entry", func(c *Cluster) { entry(c, 2).Address = "10.0.0.3" }},
		{"outside the AddressBlock", "an invalid entry", func(c *Cluster) { entry(c, 2).Address = "10.0.1.3" }},
		{"AddressBlock without finalizer", "lacks the finalizer", func(c *Cluster) { c.Blocks[0].Finalizers = nil }},
		{"AddressBlock without owner", "has no owner reference", func(c *Cluster) { c.Blocks[0].OwnerReferences = nil }},
		{"empty AddressBlock", "is not being deleted", func(c *Cluster) { c.Blocks[0].Spec.Entries = nil }},
		{"restored", "not inherited", func(c *Cluster) {
			c.Blocks[0].OwnerReferences, c.Blocks[0].Spec.NetworkUID, c.Networks[0].Annotations, c.Pods = nil, "n-earlier", nil, nil
		}},
		{"published and not recorded", "is not bound to the pod", func(c *Cluster) { c.Pods = append(c.Pods, podOf("b has=10.0.0.6/29")) }},
		{"conflict reported", "", waits("b has=10.0.0.6/29 waits=AddressConflict")},
		{"waits without a reason", "has no condition with the reason", waits("b asks=blue gated")},
		{"waits while an address is free", "has a free address for it", waits("b asks=blue gated waits=NetworkExhausted")},
		{"waits for an address in use", "", waits("b asks=blue=10.0.0.2 gated waits=AddressInUse")},
		{"no Network", "is kept, but the Network is being deleted", func(c *Cluster) { c.Networks = nil }},
	})
}

func TestCronTabDone(t *testing.T) {
	scheduled := func() *Cluster {
		tab := &stablev1.CronTab{ObjectMeta: metav1.ObjectMeta{Name: "ct", UID: "u"}, Spec: stablev1.CronTabSpec{CronSpec: "* * * * *", Image: "a"}}
		tab.Status.Conditions = []metav1.Condition{isTrue(stablev1.ConditionReady)}
		job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "ct", OwnerReferences: []metav1.OwnerReference{{Kind: "CronTab", Name: "ct", UID: "u", Controller: ptr.To(true)}}}}
		job.Spec.Schedule, job.Spec.JobTemplate.Spec.Parallelism = "* * * * *", ptr.To[int32](1)
		job.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "crontab", Image: "a"}}
		return &Cluster{Now: now, CronTabs: []*stablev1.CronTab{tab}, CronJobs: []*batchv1.CronJob{job}}
	}
	goes := func(c *Cluster, finalizers ...string) {
		c.CronTabs[0].DeletionTimestamp, c.CronTabs[0].Finalizers = ptr.To(metav1.NewTime(now)), finalizers
	}
	checkDone(t, scheduled, func(c *Cluster) string { return CronTabDone(c, c.CronTabs[0]) }, []doneTest{
		{"no CronJob", "Ready without a CronJob", func(c *Cluster) { c.CronJobs = nil }},
		{"no CronJob, and not Ready", "there is no CronJob", func(c *Cluster) { c.CronJobs, c.CronTabs[0].Status.Conditions[0].Status = nil, metav1.ConditionFalse }},
		{"at other times", "at other times", func(c *Cluster) { c.CronJobs[0].Spec.Schedule = "@daily" }},
		{"suspended", "suspended", func(c *Cluster) { c.CronJobs[0].Spec.Suspend = ptr.To(true) }},
		{"another image", "another image", func(c *Cluster) { c.CronTabs[0].Spec.Image = "b" }},
		{"more pods", "another number", func(c *Cluster) { c.CronTabs[0].Spec.Replicas = ptr.To[int32](2) }},
		{"other Networks", "other Networks", func(c *Cluster) { c.CronTabs[0].Spec.Networks = []stablev1.CronTabNetwork{{Name: "blue"}} }},
		{"impossible CronTab", "is impossible", func(c *Cluster) {
			c.CronTabs[0].Status.Conditions = []metav1.Condition{{Type: stablev1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NeverDue"}}
		}},
		{"runs counted wrongly", "active runs", func(c *Cluster) { c.CronTabs[0].Status.Active = 1 }},
		{"of another spec", "about an earlier spec", func(c *Cluster) { c.CronTabs[0].Generation = 2 }},
		{"deleted", "", func(c *Cluster) { goes(c) }},
		{"deleted, and waits", "is not being deleted", func(c *Cluster) { goes(c, stablev1.WaitFinalizer) }},
		{"deleted, and waits for nothing", "waits for nothing", func(c *Cluster) { goes(c, stablev1.WaitFinalizer); c.CronJobs = nil }},
	})
}

func TestDefinitionDone(t *testing.T) {
	defined := func() *Cluster {
		n := networkOf("10.0.0.0/29")
		n.Status.VNI, n.Status.Conditions = 70000, []metav1.Condition{isTrue(v1.ConditionAttachable)}
		return &Cluster{
			Now: now, Networks: []*v1.Network{n},
			VNIs: []*v1.VNI{{ObjectMeta: metav1.ObjectMeta{Name: "70000"}, Spec: v1.VNISpec{Network: v1.NetworkReference{Namespace: "default", Name: "blue", UID: "n"}}}},
			Definitions: []*nadv1.NetworkAttachmentDefinition{{
				ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{v1.NetworkLabel: "blue"}, OwnerReferences: blockOf().OwnerReferences},
				Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: `{"name":"default.blue","type":"pod2-cni"}`},
			}},
		}
	}
	checkDone(t, defined, func(c *Cluster) string { return DefinitionDone(c, "default", "blue") }, []doneTest{
		{"a VNI without its Network", "belongs to a Network that is gone", func(c *Cluster) { c.Networks = nil }},
		{"two VNIs", "has 2 VNIs", func(c *Cluster) {
			more := c.VNIs[0].DeepCopy()
			more.Name = "70001"
			c.VNIs = append(c.VNIs, more)
		}},
		{"no VNI", "which the Network does not have", func(c *Cluster) { c.VNIs = nil }},
		{"not an Overlay", "not an Overlay", func(c *Cluster) { c.Networks[0].Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI} }},
		{"no condition", "is missing", func(c *Cluster) { c.Networks[0].Status.Conditions = nil }},
		{"no definition", "there is no NetworkAttachmentDefinition", func(c *Cluster) { c.Definitions = c.Definitions[:0] }},
		{"the kind does not exist", "the condition Attachable is True", func(c *Cluster) { c.Definitions = nil }},
		{"another Network", "differs from the Network", func(c *Cluster) {
			c.Definitions[0].Spec.Config = strings.ReplaceAll(c.Definitions[0].Spec.Config, "blue", "green")
		}},
		{"the plugin of an earlier release", "differs from the Network", func(c *Cluster) {
			c.Definitions[0].Spec.Config = strings.ReplaceAll(c.Definitions[0].Spec.Config, "pod2-cni", "bridge")
		}},
		{"another plugin than the user's", "differs from the Network", func(c *Cluster) {
			c.Networks[0].Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI}
			c.Networks[0].Status.VNI, c.VNIs = 0, nil
		}},
		{"no owner", "has no owner", func(c *Cluster) { c.Definitions[0].OwnerReferences = nil }},
		{"another owner", "the condition Attachable is True", func(c *Cluster) { c.Definitions[0].OwnerReferences[0].UID = "u" }},
	})
}
