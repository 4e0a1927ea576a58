package main

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// Programs of the control plane, by the names of their processes, and this one.
var programs = []string{"kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", kwok}

const (
	pod2Controller = "pod2-controller"
	kwok           = "kwok-controller"
	thisProgram    = "client and observer"
)

// Components share the cores.
func (b *bench) Components() []string {
	return append(append([]string{pod2Controller}, programs...), thisProgram)
}

func (b *bench) process(component string) *measure.Process {
	if component == pod2Controller {
		return b.controller.Process
	}
	return b.components[component]
}

// step has the figures of one step.
type step struct {
	Name   string
	Pods   int // that the step changes; 0 if it changes none
	Took   time.Duration
	Writes int                // of the controller, without those of AddressHistories
	CPU    map[string]float64 // seconds, by component; a controller that was killed is left out
	Peak   map[string]float64 // MiB
}

// Rate is the number of pods per second.
func (s step) Rate() float64 { return float64(s.Pods) / s.Took.Seconds() }

// WritesPerPod of the controller.
func (s step) WritesPerPod() float64 { return float64(s.Writes) / float64(s.Pods) }

func (b *bench) step(ctx context.Context, what string, pods int, do func()) {
	b.Audit.Read()
	before := map[string]float64{}
	for _, component := range b.Components() {
		before[component] = b.process(component).CPU().Seconds()
		b.process(component).ResetPeak()
	}
	was := b.controller.Process
	begin := time.Now()
	do()
	s := step{Name: what, Pods: pods, Took: time.Since(begin), CPU: map[string]float64{}, Peak: map[string]float64{}}
	if b.controller.Process != was {
		before[pod2Controller] = 0
	}
	for _, component := range b.Components() {
		s.CPU[component] = b.process(component).CPU().Seconds() - before[component]
		s.Peak[component] = b.process(component).Peak() / (1 << 20)
	}
	// Numbers of a status and released addresses follow within seconds.
	b.controller.WaitSynced(ctx)
	writes := b.writes()
	s.Writes = writes.Sum(func(measure.Write) bool { return true })
	b.Steps = append(b.Steps, s)
	measure.Say("%s: %d pods in %.0f s, %d writes of the controller %v, CPU s %v, peak MiB %v", what, pods, s.Took.Seconds(), s.Writes, writes, rounded(s.CPU), rounded(s.Peak))
}

// writes of the controller since the last call.
func (b *bench) writes() measure.Writes {
	user := measure.ServiceAccountUser("pod2-system", pod2Controller)
	writes := b.Audit.Read()
	maps.DeleteFunc(writes, func(w measure.Write, _ int) bool { return w.User != user || w.Resource == "addresshistories" })
	return writes
}

// sample has the memory of programs at a number of pods.
type sample struct {
	Pods              int
	After             time.Duration
	CPU               float64            // seconds of the controller since its start
	Live              float64            // MiB of the controller's heap in use after its last collection
	Resident, Highest map[string]float64 // MiB, by component
}

func (b *bench) sample(ctx context.Context, now measure.Point, after time.Duration) sample {
	m := b.controller.Metrics(ctx)
	s := sample{
		Pods: now.Ready, After: after, CPU: b.controller.CPU().Seconds(),
		Live: m.Sum("go_gc_heap_live_bytes", nil) / (1 << 20), Resident: map[string]float64{}, Highest: map[string]float64{},
	}
	for _, component := range b.Components() {
		s.Resident[component] = float64(measure.Must(b.process(component).NewStatus()).VmRSS) / (1 << 20)
		s.Highest[component] = b.process(component).Peak() / (1 << 20)
	}
	measure.Say("%d pods are Ready: controller %.0f MiB live, %.0f MiB peak, %.0f s of CPU; API server %.0f MiB, etcd %.0f MiB", s.Pods, s.Live, s.Highest[pod2Controller],
		s.CPU, s.Resident["kube-apiserver"], s.Resident["etcd"])
	return s
}

func rounded(figures map[string]float64) map[string]int {
	all := map[string]int{}
	for name, figure := range figures {
		all[name] = int(math.Round(figure))
	}
	return all
}
