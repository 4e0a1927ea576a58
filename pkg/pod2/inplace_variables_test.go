package pod2

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A variable of a running container keeps the value that a resource had when the container
// started.
func TestResourceThatAVariableReads(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	requests, cpu, memory := list("1500m", "1Gi"), list("3", "2Gi"), list("2", "3Gi") // before: 1 and 1Gi, limits 2 and 2Gi
	for _, tt := range []struct {
		name, reader       string // the container of the variable
		of, reads          string
		restarts           corev1.ResourceName
		requested, limited corev1.ResourceList
		want               string
	}{
		{"its own limit", "app", "", "limits.cpu", "", nil, cpu, "no: container app: resources.limits.cpu (an environment variable reads it)"},
		{"by name", "app", "app", "limits.memory", "", nil, memory, "no: container app: resources.limits.memory (an environment variable reads it)"},
		{"its own request", "app", "", "requests.cpu", "", requests, nil, "no: container app: resources.requests.cpu (an environment variable reads it)"},
		{"another container's", "log", "app", "limits.cpu", "", nil, cpu, "no: container app: resources.limits.cpu (an environment variable reads it)"},
		{"an init container's variable", "init", "app", "limits.cpu", "", nil, cpu, "no: container app: resources.limits.cpu (an environment variable reads it)"},
		{"another resource", "app", "", "limits.cpu", "", nil, memory, "resources of app"},
		{"the limit stays", "app", "", "limits.cpu", "", requests, nil, "resources of app"},
		{"of a container that stays", "log", "", "limits.cpu", "", nil, cpu, "resources of app"},
		{"the container restarts, and gets the new value", "app", "", "limits.cpu", corev1.ResourceCPU, nil, cpu, "resources of app"},
		{"it restarts for another resource only", "app", "", "limits.cpu", corev1.ResourceMemory, nil, cpu, "no: container app: resources.limits.cpu (an environment variable reads it)"},
		{"the other container restarts, and not the reader", "log", "app", "limits.cpu", corev1.ResourceCPU, nil, cpu, "no: container app: resources.limits.cpu (an environment variable reads it)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from := Content{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init"}},
				Containers:     []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")}}, {Name: "log"}},
			}}}
			spec := &from.Template.Spec
			spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: tt.restarts, RestartPolicy: corev1.RestartContainer}}
			reader := map[string]*corev1.Container{"init": &spec.InitContainers[0], "app": &spec.Containers[0], "log": &spec.Containers[1]}[tt.reader]
			reader.Env = []corev1.EnvVar{{Name: "PLAIN", Value: "1"}, {Name: "READS", ValueFrom: &corev1.EnvVarSource{
				ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: tt.of, Resource: tt.reads}}}}
			to := from
			to.Template = *from.Template.DeepCopy()
			app := &to.Template.Spec.Containers[0].Resources
			if tt.requested != nil {
				app.Requests = tt.requested
			}
			if tt.limited != nil {
				app.Limits = tt.limited
			}
			c, why := inPlace(from, to)
			got := c.text()
			if why != "" {
				got = "no: " + why
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
