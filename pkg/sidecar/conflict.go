package sidecar

import (
	"fmt"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// conflict returns why the pods of a Sidecar cannot have those of another one too, "" if they can. The API server
// would refuse such pods, or give them one of two values, because policies have no stated order. A Sidecar is pending
// until its present spec is accepted. Pods get its last accepted spec, if any, until then:
//
//	a pending, b accepted     a is in conflict: pods get b already
//	a pending, b pending      a is in conflict if pods get its part from b already, otherwise b, with the higher name
//	a accepted, b accepted    b is in conflict: two syncs accepted both, because neither saw the status of the other one
func (s State) conflict() string {
	for _, other := range s.Others {
		if other.DeletionTimestamp != nil {
			continue
		}
		for _, spec := range s.first(other) {
			if part := common(s.Sidecar.Spec, spec); part != "" {
				return fmt.Sprintf("Sidecar %s has the %s too, and can select the same pods: rename one, or change a selector", other.Name, part)
			}
		}
	}
	return ""
}

// first returns the specs of another Sidecar that take precedence over the spec of this one.
func (s State) first(other *v1.Sidecar) (specs []v1.SidecarSpec) {
	pending, lower := !accepted(s.Sidecar), other.Name < s.Sidecar.Name
	if in := other.Status.Injected; in != nil && (pending || lower) {
		specs = append(specs, in.Spec)
	}
	if pending && lower && !accepted(other) {
		if in := s.Sidecar.Status.Injected; in == nil || common(in.Spec, other.Spec) == "" {
			specs = append(specs, other.Spec)
		}
	}
	return specs
}

// common returns a part that no pod can have from both specs, "" if there is none, or no pod has the labels of both.
func common(spec, other v1.SidecarSpec) string {
	if !overlap(spec.Selector, other.Selector) {
		return ""
	}
	for _, part := range []struct {
		kind        string
		ours, other []string
	}{
		{"container", containers(spec), containers(other)},
		{"volume", volumes(spec), volumes(other)},
		{"variable", inTargets(spec, other, variables), variables(other)},
		{"mount at", inTargets(spec, other, mounts), mounts(other)},
	} {
		for _, name := range part.ours {
			if slices.Contains(part.other, name) {
				return part.kind + " " + name
			}
		}
	}
	return ""
}

// overlap says whether a pod can have the labels of both selectors.
func overlap(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; ok && other != value {
			return false
		}
	}
	return true
}

func containers(spec v1.SidecarSpec) (names []string) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		names = append(names, c.Name)
	}
	return names
}

func volumes(spec v1.SidecarSpec) (names []string) {
	for _, v := range spec.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// inTargets are the names that a Sidecar gives to containers of which the other one can change some too.
func inTargets(spec, other v1.SidecarSpec, of func(v1.SidecarSpec) []string) []string {
	all := len(spec.TargetContainers) == 0 || len(other.TargetContainers) == 0
	if !all && !slices.ContainsFunc(spec.TargetContainers, func(name string) bool { return slices.Contains(other.TargetContainers, name) }) {
		return nil
	}
	return of(spec)
}

func variables(spec v1.SidecarSpec) (names []string) {
	for _, e := range spec.Env {
		names = append(names, e.Name)
	}
	return names
}

func mounts(spec v1.SidecarSpec) (paths []string) {
	for _, m := range spec.VolumeMounts {
		paths = append(paths, m.MountPath)
	}
	return paths
}
