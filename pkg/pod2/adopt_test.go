package pod2

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestAdopt(t *testing.T) {
	all := func(s State) string { return lines(s, "adopt", "delete", "create", "status", "again") }
	runDiff(t, []diffTest{
		{"the owner reference was removed; the rest waits", "replicas=3", []string{"web-0 orphan", "web-1 failed", "web-7"}, `
			adopt web-0 (uid u-0) of revision HASH: its owner reference is missing`},
		{"of an older revision, and not ready", "replicas=2", []string{"web-0 orphan old notready", "web-1"}, `
			adopt web-0 (uid u-0) of revision old: its owner reference is missing`},
		{"while updates are paused", "replicas=1 paused", []string{"web-0 orphan old"}, `
			adopt web-0 (uid u-0) of revision old: its owner reference is missing`},
		{"it matches the template, and was never owned", "replicas=2", []string{"web-0 bare made", "web-1 bare made gated"}, `
			adopt web-0 (uid u-0) of revision HASH: it matches the template
			adopt web-1 (uid u-1) of revision HASH: it matches the template`},
		{"a surge replica", "replicas=1 surge=1", []string{"web-0 old", "web-1 orphan"}, `
			adopt web-1 (uid u-1) of revision HASH: its owner reference is missing`},
		{"owned before, of a former ordinal, to be scaled down", "replicas=1 start=1 reserve=2", []string{"web-0 orphan", "web-1", "web-2 orphan old", "web-4 orphan"}, `
			adopt web-0 (uid u-0) of revision HASH: its owner reference is missing
			adopt web-2 (uid u-2) of revision old: its owner reference is missing
			adopt web-4 (uid u-4) of revision HASH: its owner reference is missing`},
	}, all)
	runDiff(t, []diffTest{
		{"one with a controller", "replicas=2", []string{"web-0 earlier", "web-1 of=StatefulSet/web made"}, ""},
		{"a terminating or terminated one", "replicas=2", []string{"web-0 orphan terminating", "web-1 orphan failed"}, ""},
		{"one without the name of a replica", "replicas=1", []string{"web-0", "web-00 orphan", "other orphan"}, ""},
		{"one never owned, of a former ordinal", "replicas=1 surge=1", []string{"web-0 old", "web-1 bare made", "web-2 bare made"}, ""},
		{"by a Pod2 that is being deleted", "replicas=1 going", []string{"web-0 orphan"}, ""},
	}, func(s State) string { return lines(s, "adopt") })
}

// A pod may ask for the Networks of its Sidecars too, but not for fewer Networks.
func TestAdoptWithNetworksOfSidecars(t *testing.T) {
	for _, row := range []struct{ asks, sidecars, want string }{
		{"blue, green", "mesh=1/0/0/0", "adopt web-0 (uid u-0) of revision HASH: it matches the template"},
		{"blue, green", "", ""},
		{"green", "mesh=1/0/0/0", ""},
	} {
		s := state(t, "replicas=1 networks=blue", "web-0 bare made gated")
		s.Pods[0].Annotations[v1.NetworksAnnotation] = row.asks
		if row.sidecars != "" {
			s.Pods[0].Annotations[v1.SidecarsAnnotation] = row.sidecars
		}
		if got := lines(s, "adopt"); got != row.want {
			t.Errorf("a pod that asks for %s, with the Sidecars %q: got %q, want %q", row.asks, row.sidecars, got, row.want)
		}
	}
}

// TestAdoptionWrites checks the writes in both cases.
func TestAdoptionWrites(t *testing.T) {
	for _, tt := range []struct{ name, spec, pod, want string }{
		{"owned before: its revision stays", "networks=blue start=4", "web-4 orphan old request=red",
			"Pod2 web u-web true: managed=true pod-index=4 pod-template-hash=old pod2=web, request unchanged"},
		{"it matches the template", "start=4", "web-4 bare made",
			`Pod2 web u-web true: managed=true pod-index=4 pod-template-hash=HASH pod2=web, request ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, tt.spec, tt.pod)
			s.Pods[0].ResourceVersion = "7"
			plan := Diff(s)
			if len(plan.Adopt) != 1 || plan.Adopt[0].UID != "u-4" || plan.Adopt[0].ResourceVersion != "7" || plan.Status != nil {
				t.Fatalf("the plan is\n%s", plan)
			}
			a := plan.Adopt[0]
			request := "unchanged"
			if a.Request != nil {
				request = fmt.Sprintf("%q", *a.Request)
			}
			labels := make([]string, 0, len(a.Labels))
			for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
				labels = append(labels, strings.TrimPrefix(key, "samplecrd.k8s.io/")+"="+a.Labels[key])
			}
			got := fmt.Sprintf("%s %s %s %t: %s, request %s", a.Owner.Kind, a.Owner.Name, a.Owner.UID, *a.Owner.Controller, strings.Join(labels, " "), request)
			if got = strings.ReplaceAll(got, RevisionHash(s.Pod2), "HASH"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestUnlike makes the pod that a StatefulSet would make from the template, with the
// additions of the API server and admission. Then each case changes one thing.
func TestUnlike(t *testing.T) {
	type objects struct {
		template *corev1.PodTemplateSpec
		pod2     *v1.Pod2
		pod      *corev1.Pod
	}
	const answer = `{"blue":{"address":"10.0.0.2/24"}}`
	for _, tt := range []struct {
		name   string
		change func(objects)
		want   string
	}{
		{"nothing", func(objects) {}, ""},
		{"a label", func(o objects) { o.pod.Labels["app"] = "other" }, "metadata.labels.app"},
		{"no label", func(o objects) { o.pod.Labels = nil }, "metadata.labels"},
		{"more labels", func(o objects) { o.pod.Labels["controller-revision-hash"] = "db-1" }, ""},
		{"the controller's labels in the template", func(o objects) { o.template.Labels[v1.PodIndexLabel] = "9" }, ""},
		{"labels of the Pod2 itself", func(o objects) { o.pod2.Labels = map[string]string{"team": "net"} }, ""},
		{"an annotation", func(o objects) { o.template.Annotations["example.com/version"] = "2" }, "metadata.annotations[example.com/version]"},
		{"an image", func(o objects) { o.pod.Spec.Containers[0].Image = "nginx:2" }, "spec.containers[app].image"},
		{"a container less", func(o objects) { o.pod.Spec.Containers = nil }, "spec.containers[app]"},
		{"a sidecar more", func(o objects) { o.pod.Spec.Containers = append(o.pod.Spec.Containers, corev1.Container{Name: "mesh"}) }, ""},
		{"a sidecar before it", func(o objects) {
			o.pod.Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, o.pod.Spec.Containers...)
			o.pod.Spec.InitContainers = []corev1.Container{{Name: "mesh-init"}}
		}, ""},
		{"containers in another order", func(o objects) {
			o.template.Spec.Containers = append(o.template.Spec.Containers, corev1.Container{Name: "log"})
			o.pod.Spec.Containers = append([]corev1.Container{{Name: "log"}}, o.pod.Spec.Containers...)
		}, "spec.containers"},
		{"variables that admission puts first", func(o objects) {
			o.template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
			o.pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NODE"}, {Name: "A", Value: "1"}}
		}, ""},
		{"a variable that admission changes", func(o objects) {
			o.template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
			o.pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}}
		}, "spec.containers[app].env[A].value"},
		{"ports and mounts that admission puts first", func(o objects) {
			app, is := &o.template.Spec.Containers[0], &o.pod.Spec.Containers[0]
			app.Ports = []corev1.ContainerPort{{ContainerPort: 53}}
			is.Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 53, Protocol: corev1.ProtocolTCP}}
			is.VolumeMounts = append([]corev1.VolumeMount{{Name: "cache", MountPath: "/b"}}, is.VolumeMounts...)
		}, ""},
		{"another volume there", func(o objects) { o.pod.Spec.Containers[0].VolumeMounts[0].Name = "other" }, "spec.containers[app].volumeMounts[/a].name"},
		{"an argument more", func(o objects) { o.pod.Spec.Containers[0].Args = []string{"-v", "-x"} }, "spec.containers[app].args"},
		{"an argument", func(o objects) { o.pod.Spec.Containers[0].Args = []string{"-x"} }, "spec.containers[app].args[0]"},
		{"a volume", func(o objects) { o.pod.Spec.Volumes[1].EmptyDir = nil }, "spec.volumes[cache].emptyDir"},
		{"a volume less", func(o objects) { o.pod.Spec.Volumes = o.pod.Spec.Volumes[:1] }, "spec.volumes[cache]"},
		{"a mount", func(o objects) { o.pod.Spec.Containers[0].VolumeMounts[0].MountPath = "/b" }, "spec.containers[app].volumeMounts[/a]"},
		{"no hostname", func(o objects) { o.pod.Spec.Hostname = "" }, "spec.hostname"},
		{"another subdomain", func(o objects) { o.pod2.Spec.ServiceName = "other" }, "spec.subdomain"},
		{"a gate that the template has and the pod has lost", func(o objects) {
			o.template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		}, ""},
		{"Networks in the template, as in the pod", func(o objects) {
			o.pod2.Spec.Networks = nil
			o.template.Annotations[v1.NetworksAnnotation] = " blue"
		}, ""},
		{"more Networks", func(o objects) { o.pod2.Spec.Networks = append(o.pod2.Spec.Networks, v1.Pod2Network{Name: "green"}) }, "metadata.annotations[samplecrd.k8s.io/networks]"},
		{"no Networks", func(o objects) { o.pod2.Spec.Networks = nil }, "metadata.annotations[samplecrd.k8s.io/networks]"},
		{"an address by choice", func(o objects) { o.pod2.Spec.Networks[0].Addresses = []v1.Address{"10.0.0.9"} }, "metadata.annotations[samplecrd.k8s.io/networks]"},
		{"no address", func(o objects) { delete(o.pod.Annotations, v1.AddressesAnnotation) }, "metadata.annotations[samplecrd.k8s.io/addresses]"},
		{"no address yet", func(o objects) {
			delete(o.pod.Annotations, v1.AddressesAnnotation)
			o.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		}, ""},
		{"interfaces of other users, and the controller's after them", func(o objects) {
			o.template.Annotations[v1.MultusAnnotation] = "storage"
			o.pod.Annotations[v1.MultusAnnotation] = `[{"name":"storage"},{"name":"blue","namespace":"default","interface":"net2","ips":["10.0.0.2/24"]}]`
		}, ""},
		{"other interfaces", func(o objects) {
			o.template.Annotations[v1.MultusAnnotation] = "storage"
			o.pod.Annotations[v1.MultusAnnotation] = `[{"name":"blue","namespace":"default","interface":"net1","ips":["10.0.0.2/24"]}]`
		}, "metadata.annotations[k8s.v1.cni.cncf.io/networks]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, "networks=blue service=db")
			template := &s.Pod2.Spec.Template
			template.Labels, template.Annotations = map[string]string{"app": "db"}, map[string]string{"example.com/version": "1"}
			template.Spec = corev1.PodSpec{
				Containers: []corev1.Container{{Name: "app", Image: "nginx:1", Args: []string{"-v"}, VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/a"}}}},
				Volumes:    []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u-0",
				Labels:      map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": "web-0"},
				Annotations: map[string]string{"example.com/version": "1", v1.NetworksAnnotation: "blue", v1.AddressesAnnotation: answer},
			}, Spec: *template.Spec.DeepCopy()}
			claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-0"}}}
			pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.RestartPolicy = "web-0", "db", corev1.RestartPolicyAlways
			pod.Spec.Volumes = append([]corev1.Volume{claim}, append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access"})...)
			app := &pod.Spec.Containers[0]
			app.VolumeMounts = append(app.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access", MountPath: "/var/run"})
			s.Pods = []*corev1.Pod{pod}

			tt.change(objects{template, s.Pod2, pod})
			v := look(s)
			adoption, why := v.adoption(0, *v.at(0))
			if why.Field != tt.want || (adoption == nil) != (tt.want != "") {
				t.Errorf("got %s and adoption %t, want %q", why, adoption != nil, tt.want)
			}
			if adoption != nil && s.Pod2.Spec.Networks != nil && *adoption.Request != "blue" {
				t.Errorf("request %q", *adoption.Request)
			}
		})
	}
}

// An adopted pod counts, and the next plan leaves it unchanged.
func TestAdoptedIsUpToDate(t *testing.T) {
	s := state(t, "replicas=2", "web-0 bare made", "web-1 orphan")
	for range 2 {
		if err := apply(&s, Diff(s)); err != nil {
			t.Fatal(err)
		}
	}
	if plan := Diff(s); !plan.Empty() || s.Pod2.Status.UpdatedReplicas != 2 || s.Pod2.Status.AvailableReplicas != 2 {
		t.Errorf("status %s\nplan\n%s", statusText(&s.Pod2.Status), plan)
	}
}

// A pod whose adoption failed counts only if the answer was lost, because then the Pod2
// may own it.
func TestAPodThatMayBeOursTakesRoom(t *testing.T) {
	for mayBeOurs, want := range map[bool]int{true: 1, false: 2} {
		s := state(t, "replicas=2", "web-4 orphan")
		s.Unadoptable = map[types.UID]Unadoptable{"u-4": {MayBeOurs: mayBeOurs}}
		if plan := Diff(s); len(plan.Create) != want || len(plan.Adopt) != 0 {
			t.Errorf("the Pod2 may own it: %t: want %d creations in the plan\n%s", mayBeOurs, want, plan)
		}
	}
}

// The difference shows both values, shortened.
func TestUnlikeSaysBothValues(t *testing.T) {
	long := strings.Repeat("x", 2*maxCause)
	for _, tt := range []struct {
		name   string
		change func(*v1.Pod2, *corev1.Pod)
		want   string
	}{
		{"a text", func(_ *v1.Pod2, pod *corev1.Pod) { pod.Spec.Containers[0].Image = "a<b" },
			`spec.containers[app].image (the pod has "a<b", the template "nginx:1")`},
		{"a number", func(p *v1.Pod2, pod *corev1.Pod) {
			p.Spec.Template.Spec.Priority, pod.Spec.Priority = ptr.To[int32](5), ptr.To[int32](7)
		}, `spec.priority (the pod has 7, the template 5)`},
		{"nothing", func(_ *v1.Pod2, pod *corev1.Pod) { pod.Spec.Containers = nil },
			`spec.containers[app] (the pod has nothing, the template {"image":"nginx:1","name":"app","resources":{}})`},
		{"values", func(p *v1.Pod2, _ *corev1.Pod) {
			p.Spec.Template.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"a"}}
		},
			`spec.dnsConfig (the pod has nothing, the template {"searches":["a"]})`},
		{"a possible password", func(p *v1.Pod2, pod *corev1.Pod) {
			p.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "mine"}}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "theirs"}}
		}, `spec.containers[app].env[PASSWORD].value`},
		{"and in arguments", func(p *v1.Pod2, pod *corev1.Pod) {
			p.Spec.Template.Spec.Containers[0].Args, pod.Spec.Containers[0].Args = []string{"-p=mine"}, []string{"-p=theirs"}
		}, `spec.containers[app].args[0]`},
		{"the order", func(p *v1.Pod2, pod *corev1.Pod) {
			p.Spec.Template.Spec.Containers = append(p.Spec.Template.Spec.Containers, corev1.Container{Name: "log"})
			pod.Spec.Containers = append([]corev1.Container{{Name: "log"}}, pod.Spec.Containers...)
		}, `spec.containers (the pod has ["log","app"], the template ["app","log"])`},
		{"Networks", func(p *v1.Pod2, _ *corev1.Pod) { p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}} },
			`metadata.annotations[samplecrd.k8s.io/networks] (the pod has nothing, the template "blue")`},
		{"no Networks", func(_ *v1.Pod2, pod *corev1.Pod) { pod.Annotations = map[string]string{v1.NetworksAnnotation: "red"} },
			`metadata.annotations[samplecrd.k8s.io/networks] (the pod has "red", the template nothing)`},
		{"addresses", func(p *v1.Pod2, pod *corev1.Pod) {
			p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}}
			pod.Annotations = map[string]string{v1.NetworksAnnotation: "blue"}
			pod.Spec.SchedulingGates = nil
		}, `metadata.annotations[samplecrd.k8s.io/addresses] (the pod has nothing, the template "an address of blue")`},
		{"a long text", func(_ *v1.Pod2, pod *corev1.Pod) { pod.Spec.Containers[0].Image = long },
			`spec.containers[app].image (the pod has "` + long[:maxCause-4] + `..., the template "nginx:1")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, "replicas=1", "web-0 of=StatefulSet/web foreign made")
			tt.change(s.Pod2, s.Pods[0])
			orphans := Orphans(s)
			if len(orphans) != 1 || orphans[0].Owner != "StatefulSet/web" || orphans[0].Unlike.String() != tt.want {
				t.Errorf("got %v, want %s", orphans, tt.want)
			}
			if len(s.Pods[0].OwnerReferences) == 0 {
				t.Error("the owner of the pod itself was removed")
			}
		})
	}
}

func TestOrphansArePodsOfOthers(t *testing.T) {
	s := state(t, "replicas=6", "web-0", "web-1 of=StatefulSet/web foreign made", "web-2 bare", "web-3 of=StatefulSet/web foreign terminating",
		"web-4 earlier", "web-5 of=Job/x foreign", "web-9 of=StatefulSet/web foreign made")
	var got []string
	for _, o := range Orphans(s) {
		got = append(got, fmt.Sprintf("%s of %s: %q", o.Pod, o.Owner, o.Unlike.Field))
	}
	if want := `web-1 of StatefulSet/web: "", web-5 of Job/x: "spec.containers[app].image"`; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}
