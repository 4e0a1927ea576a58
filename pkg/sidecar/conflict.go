package sidecar

import (
	"fmt"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// conflict returns why the pods of a Sidecar cannot have those of another one too, "" if they can. The API server
// would refuse such pods, or give them one of two values, because policies have no stated order. The Sidecar that was
// accepted first stays, and of two new ones, that with the lower name:
//
//	a new, b accepted    a is in conflict
//	a new, b new         b is in conflict
func (s State) conflict() string {
	for _, other := range s.Others {
		spec := other.Spec
		switch {
		case other.DeletionTimestamp != nil:
			continue
		case other.Status.Injected != nil:
			spec = other.Status.Injected.Spec
		case other.Name > s.Sidecar.Name:
			continue
		}
		if !overlap(s.Sidecar.Spec.Selector, spec.Selector) {
			continue
		}
		for _, part := range []struct {
			kind        string
			ours, other []string
		}{
			{"container", containers(s.Sidecar.Spec), containers(spec)},
			{"volume", volumes(s.Sidecar.Spec), volumes(spec)},
			{"variable", inTargets(s.Sidecar.Spec, spec, variables), variables(spec)},
			{"mount at", inTargets(s.Sidecar.Spec, spec, mounts), mounts(spec)},
		} {
			for _, name := range part.ours {
				if slices.Contains(part.other, name) {
					return fmt.Sprintf("Sidecar %s has the %s %s too, and can select the same pods: rename one, or change a selector", other.Name, part.kind, name)
				}
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
