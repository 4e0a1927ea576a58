package pod2

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

func TestWhatCanBeChangedInPlace(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	base := func() Content {
		return Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}},
			Containers: []corev1.Container{{Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")},
				Env: []corev1.EnvVar{{Name: "TIER", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}}}}, {Name: "log", Image: "log:1"}},
		}}}
	}
	app := func(c *Content) *corev1.Container { return &c.Template.Spec.Containers[0] }
	for _, tt := range []struct {
		name   string
		change func(*Content)
		want   string // the changes, or "no:" and why not
	}{
		{"an image", func(c *Content) { app(c).Image = "app:2" }, "image of app"},
		{"images, cpu and labels", func(c *Content) {
			app(c).Image, c.Template.Spec.Containers[1].Image = "app:2", "log:2"
			app(c).Resources.Requests, c.Template.Labels = list("1500m", "1Gi"), map[string]string{"x": "y"}
		}, "resources of app; image of app; image of log; labels x"},
		{"the same quantity in other units", func(c *Content) { app(c).Resources.Requests = list("1000m", "1024Mi") }, "nothing"},
		{"an annotation", func(c *Content) { c.Template.Annotations = map[string]string{"checksum/config": "1"} }, "no: template.metadata"},
		{"an annotation and an image", func(c *Content) {
			c.Template.Annotations, app(c).Image = map[string]string{"checksum/config": "1"}, "app:2"
		}, "no: template.metadata"},
		{"an init container", func(c *Content) { c.Template.Spec.InitContainers[0].Image = "init:2" }, "no: template.spec.initContainers[0].image"},
		{"a container more", func(c *Content) {
			c.Template.Spec.Containers = append(c.Template.Spec.Containers, corev1.Container{Name: "z"})
		}, "no: template.spec.containers"},
		{"containers in another order", func(c *Content) {
			cs := c.Template.Spec.Containers
			cs[0], cs[1] = cs[1], cs[0]
		}, "no: container log: resources.requests.cpu (removed)"},
		{"an argument", func(c *Content) { app(c).Args = []string{"-v"} }, "no: template.spec.containers[0].args"},
		{"a Network", func(c *Content) { c.Networks = []Network{{Name: "blue"}} }, "no: networks"},
		{"serviceName", func(c *Content) { c.ServiceName = "db" }, "no: serviceName"},
		{"a label that a variable reads", func(c *Content) { c.Template.Labels = map[string]string{"tier": "a"} }, "no: label tier (an environment variable reads it)"},
		{"the label that leaves out Sidecars", func(c *Content) { c.Template.Labels = map[string]string{v1.SidecarsLabel: "disabled"} }, `
			no: label samplecrd.k8s.io/sidecars (it counts only when a pod is created)`},
		{"the QoS class", func(c *Content) { app(c).Resources.Requests = list("2", "2Gi") }, "resources of app"}, // log is still Burstable
		{"the QoS class of all", func(c *Content) {
			c.Template.Spec.InitContainers, c.Template.Spec.Containers = nil, c.Template.Spec.Containers[:1]
			app(c).Resources.Requests = list("2", "2Gi")
		}, "no: template.spec.containers"},
		{"a removed limit", func(c *Content) { app(c).Resources.Limits = nil }, "no: container app: resources.limits.cpu (removed)"},
		{"an added request", func(c *Content) {
			app(c).Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		}, "no: container app: resources.requests.ephemeral-storage (added)"},
		{"a smaller memory limit", func(c *Content) { app(c).Resources.Limits = list("2", "1Gi") }, "no: container app: resources.limits.memory (less)"},
		{"a larger memory limit", func(c *Content) { app(c).Resources.Limits = list("2", "3Gi") }, "resources of app"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, to := base(), base()
			tt.change(&to)
			c, why := inPlace(from, to)
			got := c.text()
			switch {
			case why != "":
				got = "no: " + why
			case got == "":
				got = "nothing"
			}
			if want := block(tt.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestQOSClassThatChanges(t *testing.T) {
	guaranteed := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	less := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	of := func(requests corev1.ResourceList) Content {
		return Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app",
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: guaranteed}}}}}}
	}
	if _, why := inPlace(of(guaranteed), of(less)); why != "the QoS class (from Guaranteed to Burstable)" {
		t.Errorf("got %q", why)
	}
}

// From A, update B requested cpu. C has only another image, and A's cpu.
func TestImageAfterAnotherResize(t *testing.T) {
	for _, tt := range []struct{ pod, want string }{
		{"web-0 old image=nginx:0 resizing cpu=3/2", "resize web-0 (uid u-0): resources of app; image of app"},
		{"web-0 old image=nginx:0 resizing cpu=2/2", "update web-0 in place (uid u-0): resources of app; image of app"},
	} {
		s := state(t, "replicas=1 inplace cpu=2", tt.pod)
		content := ContentOf(s.Pod2)
		content.Template = *content.Template.DeepCopy()
		content.Template.Spec.Containers[0].Image = "nginx:0"
		s.Revisions[0].Data.Raw = content.canonical()
		if got := changes(s); got != tt.want {
			t.Errorf("of %s: got %s, want %s", tt.pod, got, tt.want)
		}
	}
}

// Requested memory that the node never granted cannot be taken back in a running pod.
// Resources that admission added stay unchanged.
func TestResourcesOfAnyRevision(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	to := Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("2", "1Gi"), Limits: list("3", "2Gi")}}}}}
	if c, why := (change{}).withResources(pod, to); why != "" || c.text() != "resources of app" {
		t.Errorf("got %s, %q", c.text(), why)
	}
	to.Template.Spec.Containers[0].Resources.Limits = list("3", "1Gi")
	if _, why := (change{}).withResources(pod, to); why != "container app: resources.limits.memory (less) cannot be changed in a running pod" {
		t.Errorf("got %q", why)
	}
}

// The node's answer to an earlier resize says nothing about this one.
func TestInfeasibleBefore(t *testing.T) {
	s := state(t, "replicas=1 inplace cpu=2", "web-0 old resizing cpu=2/1 resize=Infeasible")
	s.Pods[0].Generation, attachment.Condition(s.Pods[0], corev1.PodResizePending).ObservedGeneration = 3, 2
	if got := changes(s); got != "" {
		t.Errorf("got %s", got)
	}
}

// A refusal for one container is part of a change of two.
func TestRefusalOfAPart(t *testing.T) {
	two := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	refusal := Refusal{Resources: map[string]corev1.ResourceRequirements{"app": two}}
	for name, want := range map[string]bool{"app": true, "side": false} {
		if got := refusal.of(change{resources: map[string]corev1.ResourceRequirements{name: two, "other": {}}}); got != want {
			t.Errorf("of a change of %s and other: %t", name, got)
		}
	}
}

// A refused resize is not requested again; another one is.
func TestRefusedResize(t *testing.T) {
	s := state(t, "replicas=2 inplace cpu=2", "web-0 old cpu=1/1", "web-1 old cpu=1/1")
	s.Refused = map[types.UID]Refusal{
		"u-0": {Resources: Diff(s).Resize[0].Resources, Message: "Pod QOS Class may not change"},
		"u-1": {Resources: map[string]corev1.ResourceRequirements{"app": {}}, Message: "Pod QOS Class may not change"},
	}
	want := "resize web-1 (uid u-1): resources of app\ndelete web-0 (uid u-0): template changed: its resources cannot be changed: Pod QOS Class may not change"
	if got := changes(s); got != want {
		t.Errorf("got %s", got)
	}
}

// The record of a resize keeps the other changes in progress.
func TestResizeIsRecorded(t *testing.T) {
	s := state(t, "replicas=2 inplace cpu=2", "web-0 old cpu=1/1 updating=id-0", "web-1 old cpu=1/1 resizing")
	got := ""
	for _, r := range Diff(s).Resize {
		got += r.Name + " " + r.Annotation + "\n"
	}
	if want := "web-1 \nweb-0 " + `{"containers":{"app":{"id":"id-0","image":"nginx:before"}},"resizing":true}` + "\n"; got != want {
		t.Errorf("got %s", got)
	}
}

// If the template has only limits, a resize sets requests too, as the API server did when
// the pod was created.
func TestResizeOfLimitsAlone(t *testing.T) {
	of := func(cpu string) Content {
		return Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}}
	}
	c, why := inPlace(of("1"), of("2"))
	app := c.resources["app"]
	if why != "" || app.Requests.Cpu().String() != "2" || app.Limits.Cpu().String() != "2" {
		t.Errorf("got %v, %q", app, why)
	}
}

func changes(s State) string { return lines(s, "resize", "update", "delete", "create") }

func TestInPlaceUpdate(t *testing.T) {
	runDiff(t, []diffTest{
		{"one at a time, highest first", "replicas=3 inplace", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			update web-2 in place (uid u-2): image of app`},
		{"waits for the new container", "replicas=2 inplace", []string{"web-0 old", "web-1 updating=id-1"}, ""},
		{"and until it is ready", "replicas=2 inplace", []string{"web-0 old", "web-1 updating=id-0 notready"}, ""},
		{"continues", "replicas=2 inplace", []string{"web-0 old", "web-1 updating=id-0"}, `
			update web-0 in place (uid u-0): image of app`},
		{"minReadySeconds counts from the restart", "replicas=2 inplace minReady=10", []string{"web-0 old", "web-1 updating=id-0 restarted=3s"}, ""},
		{"one that is not ready never counts", "replicas=2 inplace", []string{"web-0 old", "web-1 old notready"}, `
			update web-1 in place (uid u-1): image of app`},
		{"one that has not started is recreated", "replicas=2 inplace", []string{"web-0 old gated", "web-1 unschedulable old"}, `
			delete web-1 (uid u-1): template changed
			delete web-0 (uid u-0): template changed`},
		{"all at once if nothing restarts: they have the image", "replicas=2 inplace", []string{"web-0 old image=nginx:1", "web-1 old image=nginx:1"}, `
			update web-1 in place (uid u-1): image of app
			update web-0 in place (uid u-0): image of app`},
		{"admission restored the running image", "replicas=2 inplace", []string{"web-0 old", "web-1 updating=id-1 image=nginx:before"}, `
			update web-0 in place (uid u-0): image of app`},
		{"never", "replicas=1", []string{"web-0 old"}, `delete web-0 (uid u-0): template changed`},
		{"a Recreate", "replicas=1 inplace recreate", []string{"web-0 old"}, `delete web-0 (uid u-0): template changed`},
		{"on Networks", "replicas=1 inplace networks=blue", []string{"web-0 old request=blue"}, `
			update web-0 in place (uid u-0): image of app`},
		{"another request", "replicas=1 inplace networks=blue", []string{"web-0 request=green"}, `
			delete web-0 (uid u-0): request for addresses changed from "green" to "blue"`},
		{"another image and another request", "replicas=1 inplace networks=blue", []string{"web-0 old request=green"}, `
			delete web-0 (uid u-0): request for addresses changed from "green" to "blue"`},
		{"back to the image that still runs", "replicas=1 inplace", []string{"web-0 old updating=id-1"}, `
			delete web-0 (uid u-0): template changed before container app ran the image of the previous update`},
		{"cpu first", "replicas=2 inplace cpu=2", []string{"web-0 old cpu=1/1", "web-1 old cpu=1/1"}, `
			resize web-1 (uid u-1): resources of app
			resize web-0 (uid u-0): resources of app`},
		{"no surge if the update costs nothing", "replicas=2 inplace cpu=2 surge=1", []string{"web-0 old cpu=1/1", "web-1 old cpu=2/1"}, `
			resize web-0 (uid u-0): resources of app`},
		{"then the node", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=2/1"}, ""},
		{"which may do it later", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=2/1 resize=Deferred"}, ""},
		{"but recreated if nothing is lost", "replicas=1 inplace cpu=2", []string{"web-0 old notready cpu=2/1 resize=Deferred"}, `
			delete web-0 (uid u-0): template changed: it is not ready, and its node has no room to resize it yet`},
		{"not before the node reports it", "replicas=1 inplace cpu=2", []string{"web-0 old notready cpu=2/1"}, ""},
		{"not if it is ready and restarts", "replicas=1 inplace cpu=2 restarts", []string{"web-0 old resizing cpu=2/1 resize=Deferred"}, ""},
		{"then the label", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=2/2"}, `update web-0 in place (uid u-0): resources of app`},
		{"the node cannot", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=2/1 resize=Infeasible"}, `
			delete web-0 (uid u-0): template changed: its resources cannot be changed: Infeasible: node has 1 cpu`},
		{"a resize that restarts is counted", "replicas=3 inplace cpu=2 restarts", []string{"web-0 old cpu=1/1", "web-1 old cpu=1/1", "web-2 old cpu=1/1"}, `
			resize web-2 (uid u-2): resources of app`},
		{"also while the node is yet to act", "replicas=3 inplace cpu=2 restarts", []string{"web-0 old cpu=1/1", "web-1 old cpu=1/1", "web-2 old resizing cpu=2/1"}, ""},
		{"and while it acts", "replicas=3 inplace cpu=2 restarts", []string{"web-0 old cpu=1/1", "web-1 old cpu=1/1", "web-2 old resizing cpu=2/2 inprogress"}, ""},
		{"and while it may act later", "replicas=3 inplace cpu=2 restarts", []string{"web-0 old cpu=1/1", "web-1 old cpu=1/1", "web-2 old resizing cpu=2/1 resize=Deferred"}, ""},
		{"one that cannot restart is available", "replicas=2 inplace cpu=2 restarts", []string{"web-0 notready", "web-1 old resizing cpu=2/1 resize=Infeasible"}, ""},
		{"minReadySeconds counts from that restart", "replicas=2 inplace cpu=2 restarts minReady=10", []string{"web-0 old cpu=1/1", "web-1 restarted=3s"}, ""},
		{"undone while the node may act", "replicas=1 inplace cpu=3", []string{"web-0 resizing cpu=4/3 resize=Deferred"}, `
			resize web-0 (uid u-0): resources of app`},
		{"an undo ends with the record", "replicas=1 inplace cpu=3", []string{"web-0 resizing cpu=3/3"}, `
			update web-0 in place (uid u-0): resources of app`},
		{"an undo that restarts has a cost", "replicas=2 inplace cpu=3 restarts", []string{"web-0 resizing cpu=4/4", "web-1 resizing cpu=4/4"}, `
			resize web-1 (uid u-1): resources of app`},
		{"a surge replica comes first if none may be missing", "replicas=1 inplace surge=1 max=0", []string{"web-0 old"}, `create web-1: missing`},
	}, changes)
}

// TestInPlacePatch checks the patch: the containers that restart, the revision, the
// labels that are added and removed, and no label of the controller from the template. A key
// that only looks like one of the controller's is the user's.
func TestInPlacePatch(t *testing.T) {
	s := state(t, "replicas=1 inplace", "web-0 old")
	s.Pod2.Labels = map[string]string{"b": "of the Pod2"}
	content := ContentOf(s.Pod2)
	content.Template = *content.Template.DeepCopy()
	content.Template.Labels = map[string]string{"a": "1", "b": "1", "c": "1", v1.PodIndexLabel: "9", v1.GroupName + "/d": "1"}
	s.Revisions[0].Data.Raw = content.canonical()
	s.Pod2.Spec.Template.Labels = map[string]string{"c": "2"}
	u := Diff(s).InPlace[0]
	text := func(p *string) string {
		if p == nil {
			return "removed"
		}
		return *p
	}
	got := "a " + text(u.Labels["a"]) + ", b " + text(u.Labels["b"]) + ", c " + text(u.Labels["c"]) + ", d " + text(u.Labels[v1.GroupName+"/d"]) + ", " + u.Annotation
	if want := `a removed, b of the Pod2, c 2, d removed, {"containers":{}}`; got != want || len(u.Labels) != 5 || *u.Labels[v1.PodTemplateHashLabel] != RevisionHash(s.Pod2) {
		t.Errorf("got %s, %v", got, u.Labels)
	}
	s = state(t, "replicas=1 inplace", "web-0 old image=nginx:1")
	if got := Diff(s).InPlace[0].Annotation; got != `{"containers":{}}` {
		t.Errorf("the pod has the image, and the annotation is %s", got)
	}
	s = state(t, "replicas=1 inplace", "web-0 old updating=id-1")
	s.Pods[0].Status.ContainerStatuses[0].ContainerID = "id-2"
	if got := Diff(s).InPlace[0].Annotation; got != `{"containers":{"app":{"id":"id-2","image":"nginx:0"}}}` {
		t.Errorf("the annotation is %s", got)
	}
}
