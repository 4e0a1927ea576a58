package pod2

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A replica that is updated in place must equal a created one. Otherwise it is recreated.
func TestWhatAdmissionChanged(t *testing.T) {
	runDiff(t, []diffTest{
		{"the image is from a mirror", "replicas=1 inplace", []string{"web-0 old image=mirror.example.com/nginx:0"}, `
			delete web-0 (uid u-0): template changed: container app has image mirror.example.com/nginx:0, but nginx:0 in its revision: admission may change the new image too`},
		{"from a mirror, and no image changes", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=1/1 image=mirror.example.com/nginx:1"}, `
			resize web-0 (uid u-0): resources of app`},
		{"the image is that of the new revision", "replicas=1 inplace", []string{"web-0 old image=nginx:1"}, `
			update web-0 in place (uid u-0): image of app`},
		{"cpu", "replicas=1 inplace cpu=2", []string{"web-0 old cpu=4/4"}, `
			delete web-0 (uid u-0): template changed: resources.requests.cpu of container app is 4, but 1 in its revision: admission may change the new value too`},
		{"cpu that another update requested", "replicas=1 inplace cpu=2", []string{"web-0 old resizing cpu=4/4"}, `
			resize web-0 (uid u-0): resources of app`},
	}, changes)
}

// A container that someone injected into the pod is ignored.
func TestInjectedContainersDoNotCount(t *testing.T) {
	s := state(t, "replicas=1 inplace", "web-0 old")
	s.Pods[0].Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "mirror.example.com/proxy"}}, s.Pods[0].Spec.Containers...)
	if got, want := changes(s), "update web-0 in place (uid u-0): image of app"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A default of a LimitRange does not change the template's resources.
func TestAddedResourcesDoNotCount(t *testing.T) {
	s := state(t, "replicas=1 inplace cpu=2", "web-0 old cpu=1/1")
	s.Pods[0].Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	if got, want := changes(s), "resize web-0 (uid u-0): resources of app"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestImagesWithAnotherPullPolicy(t *testing.T) {
	of := func(image string, policy corev1.PullPolicy) Content {
		return Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image, ImagePullPolicy: policy}}}}}
	}
	const no = "container app: imagePullPolicy (its default changes from IfNotPresent to Always with the image)"
	for _, tt := range []struct {
		from, to string
		policy   corev1.PullPolicy
		want     string
	}{
		{"nginx:1", "nginx:2", "", ""},
		{"nginx:1", "nginx:latest", "", no},
		{"nginx:1", "nginx", "", no},
		{"nginx:1", "nginx", corev1.PullIfNotPresent, ""},
		{"registry:5000/nginx", "nginx:latest", "", ""},
		{"registry:5000/nginx:1", "nginx@sha256:00", "", ""},
		{"nginx@sha256:00", "nginx:latest@sha256:11", "", no},
	} {
		if _, why := inPlace(of(tt.from, tt.policy), of(tt.to, tt.policy)); why != tt.want {
			t.Errorf("from %s to %s (%s): got %q, want %q", tt.from, tt.to, tt.policy, why, tt.want)
		}
	}
}
