package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// components are the programs that share the cores, by the names of their processes;
// ours are pod2Controller and this one.
var components = []string{apiServer, "etcd", "kube-controller-manager", "kube-scheduler", "kwok-controller", pod2Controller, thisProgram}

const (
	apiServer      = "kube-apiserver"
	pod2Controller = "pod2-controller"
	thisProgram    = "client and observer"
)

// findComponents finds the processes of the control plane, which run from below b.dir.
func (b *bench) findComponents() error {
	b.components = map[string]*process{thisProgram: {pid: os.Getpid()}}
	for _, name := range components {
		if name == pod2Controller || name == thisProgram {
			continue
		}
		p, err := processOf(filepath.Join(b.dir, "control-plane"), name)
		if err != nil {
			return err
		}
		b.components[name] = p
	}
	return nil
}

// process is the one of a component; that of our controller changes when it is started anew.
func (b *bench) process(component string) *process {
	if component == pod2Controller {
		return b.controller
	}
	return b.components[component]
}

// computed is how long each component has computed so far.
func (b *bench) computed() (map[string]time.Duration, error) {
	computed := map[string]time.Duration{}
	for _, name := range components {
		spent, err := b.process(name).cpu()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		computed[name] = spent
	}
	return computed, nil
}

// total is of all components.
func total(computed map[string]time.Duration) (sum time.Duration) {
	for _, spent := range computed {
		sum += spent
	}
	return sum
}

// shares is what each component computed, in the order of components.
func shares(computed map[string]time.Duration) string {
	var each []string
	for _, name := range components {
		each = append(each, fmt.Sprintf("%s %.1f", name, computed[name].Seconds()))
	}
	return strings.Join(each, ", ")
}

// profile is which component computed how long until all pods were Ready, and how much
// of the machine that was: what is not near all of it was waiting, not work.
func (r *results) profile(n int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "| contender | %s | all | of the cores, %% |\n|---%s|---|---|\n", strings.Join(components, " | "), strings.Repeat("|---", len(components)))
	for _, c := range contenders() {
		if len(r.of(c.name, n)) == 0 {
			continue
		}
		fmt.Fprintf(&s, "| %s |", c.name)
		for _, component := range components {
			fmt.Fprintf(&s, " %.1f |", r.seconds(c.name, n, func(l lap) time.Duration { return l.computed[component] }).median)
		}
		all := r.seconds(c.name, n, func(l lap) time.Duration { return total(l.computed) }).median
		share := r.figure(c.name, n, func(l lap) float64 {
			return 100 * total(l.computed).Seconds() / l.ready.Seconds() / float64(runtime.NumCPU())
		})
		fmt.Fprintf(&s, " %.1f | %.0f |\n", all, share.median)
	}
	return s.String()
}
