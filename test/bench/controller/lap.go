package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/test/bench/measure"
)

// lap is one run of one contender, alone on a quiet cluster.
type lap struct {
	measure.Results // seconds; writes of the Pod2 controller for each pod
	contender       contender
	n               int
	namespace       string
	pods            *measure.Pods
	begin           time.Time
	ready           time.Duration
	unexplained     float64 // writes: the difference between the client's and the API server's count
}

func (b *bench) measureAll(ctx context.Context) {
	all := b.chosen()
	fmt.Fprintln(os.Stderr, "Warming up ...")
	for _, c := range all {
		b.lap(ctx, c, max(1, b.sizes[0]/20), nil)
	}
	for round := range b.Rounds {
		for _, n := range b.sizes {
			for i := range all {
				c := all[turn(i, round, len(all))]
				if (c.kruise() || c.name == statefulSet) && round >= b.RoundsOfOthers() {
					continue
				}
				b.keep(b.lap(ctx, c, n, func(l *lap) {
					whole := b.Variant == "" && n == b.N()
					if whole && round == 0 && (b.Full || len(c.networks) == 0) {
						b.update(ctx, l)
					}
					if whole && c.replaces && (round == 0 || !c.kruise()) {
						b.replace(ctx, l)
					}
					if c.scales && round == 0 && (b.Full || b.Variant != "") {
						b.scaleToZero(ctx, l, true)
					}
				}))
			}
		}
		if b.Addresses > 0 && b.Variant == "" && round < b.RoundsOfOthers() {
			b.addresses(ctx, round, b.Addresses)
		}
	}
	if b.Full {
		b.profileLaps(ctx)
	}
	for _, n := range b.larges {
		for _, c := range all {
			if c.name == pod2OnOne {
				history := b.countHistory()
				l := b.lap(ctx, c, n, func(l *lap) {
					if n < b.Large() {
						b.scaleToZero(ctx, l, false)
						return
					}
					b.waitHistory(ctx, l) // its last write comes a minute after pods started
					b.stand(ctx)
				})
				if n == b.Large() {
					b.waitHistory(ctx, l)
					l.Add(float64(history())/float64(n), "history")
				}
				b.keep(l)
			}
		}
	}
}

// RoundsOfOthers is the number of rounds of other projects, of StatefulSet, and of all allocators. Fewer save time, and no target needs them.
func (o options) RoundsOfOthers() int {
	if o.Full {
		return o.Rounds
	}
	return min(o.Rounds, 2)
}

// chosen contenders.
func (b *bench) chosen() []contender {
	return slices.DeleteFunc(contenders(), func(c contender) bool {
		return !b.only.MatchString(c.name) || c.full && !b.Full && b.Variant == ""
	})
}

func (b *bench) keep(l *lap) {
	measure.Say("%-36s %5d pods: %s", l.contender.name, l.n, l)
	b.AddAll(l.Results, l.contender.name, l.n)
	b.laps = append(b.laps, l)
	if l.n == b.N() {
		b.Add(1/l.slowness("Ready"), "speed")
	}
}

// turn is the contender for the i-th turn of a round. Each round begins with another
// contender, and every other round is reversed, so no contender always follows the same one.
func turn(i, round, contenders int) int {
	if round%2 == 1 {
		i = contenders - 1 - i
	}
	return (i + round*3) % contenders
}

// lap creates and deletes n pods, and calls more in between.
func (b *bench) lap(ctx context.Context, c contender, n int, more func(*lap)) *lap {
	l := &lap{Results: measure.Results{}, contender: c, n: n}
	if err := measure.Try(func() { b.upAndDown(ctx, l, more) }); err != nil {
		measure.Check(fmt.Errorf("%s with %d pods: %w", c.name, n, err))
	}
	return l
}

func (b *bench) upAndDown(ctx context.Context, l *lap, more func(*lap)) {
	c := l.contender
	if c.kruise() {
		defer b.startKruise(ctx, c)()
	}
	l.namespace = b.newNamespace(ctx)
	for i, network := range c.networks {
		b.newNetwork(ctx, l.namespace, network, i)
	}
	l.pods = b.WatchPods(ctx, l.namespace, func(watch.Event) {})
	defer l.pods.Stop()
	b.waitQuiet(ctx)

	creator := b.processes(c.creator())[0]
	creator.ResetPeak()
	computed, work := b.computed(), b.speed.Now()
	made := b.counting(ctx, l)
	if b.begun != nil {
		b.begun()
	}
	age, stop := b.watchStatus(ctx, l.namespace)
	defer stop()
	l.begin = time.Now()
	b.create(ctx, c, l.namespace, l.n)
	l.waitReady(ctx)
	if c.ours() {
		l.Add(age.most().Seconds(), "status age")
	}
	l.ready = l.pods.First(l.begin, l.up)
	l.addComputed("Ready", l.ready, computed, b.computed())
	l.Add(b.speed.Since(ctx, work), "piece of work until Ready")
	l.addTime(l.ready, "ready", "Ready")
	l.Add(l.pods.First(l.begin, func(p measure.Point) bool { return p.Exist == l.n }).Seconds(), "exist")
	if !c.raw() {
		cpu := l.Median("CPU until Ready", c.creator())
		l.Add(cpu, "creator", "CPU")
		l.Add(cpu/l.slowness("Ready"), "creator", "CPU", even)
		l.Add(creator.Peak()/(1<<20), "creator", "MiB")
	}
	b.waitQuiet(ctx)
	made("created")
	if more != nil {
		more(l)
	}
	end, had, computed, work := time.Now(), l.pods.Now().Exist, b.computed(), b.speed.Now()
	made = b.counting(ctx, l)
	b.delete(ctx, c, l.namespace)
	l.waitGone(ctx)
	if had == 0 {
		return
	}
	took := l.pods.First(end, gone)
	l.addComputed("gone", took, computed, b.computed())
	l.Add(b.speed.Since(ctx, work), "piece of work until gone")
	l.addTime(took, "gone", "gone")
	if c.name == pod2OnOne {
		b.waitFreed(ctx, l.namespace)
		b.waitQuiet(ctx)
		made("collected")
	}
}

// even is for figures that compare laps: they are divided by the slowness of their lap.
const even = "at equal speed"

// slowness is the CPU time of the same piece of work while pods become Ready, or end. The CPU time of
// a program of the cluster would not do: it depends on the size of the contender's pods. All contenders
// keep the cores busy, so none seems to run on a faster machine because it leaves a core idle.
func (l *lap) slowness(until string) float64 { return l.Median("piece of work until " + until) }

func (l *lap) addTime(took time.Duration, name, until string) {
	l.Add(took.Seconds(), name)
	l.Add(took.Seconds()/l.slowness(until), name, even)
}

func (l *lap) up(p measure.Point) bool { return p.Exist == l.n && p.Ready == l.n }

func (l *lap) waitReady(ctx context.Context) { l.pods.Wait(ctx, "all pods are Ready", l.up) }

func (l *lap) waitGone(ctx context.Context) { l.pods.Wait(ctx, "all pods are gone", gone) }

func gone(p measure.Point) bool { return p.Exist == 0 }

// scaleToZero counts the controller's writes until all pods are gone. With again, it then creates
// the pods again, so every contender's pods are in the same state when they are deleted.
func (b *bench) scaleToZero(ctx context.Context, l *lap, again bool) {
	made, begin := b.counting(ctx, l), time.Now()
	b.patch(ctx, l.contender, l.namespace, map[string]any{"replicas": 0})
	l.waitGone(ctx)
	l.Add(l.pods.First(begin, gone).Seconds(), "scaled to zero")
	b.waitFreed(ctx, l.namespace)
	b.waitQuiet(ctx)
	made("deleted")
	if !again {
		return
	}
	b.patch(ctx, l.contender, l.namespace, map[string]any{"replicas": l.n})
	l.waitReady(ctx)
	b.waitQuiet(ctx)
}

// update recreates all pods, then updates them in place, if the contender supports it.
func (b *bench) update(ctx context.Context, l *lap) {
	change := func(image, name string) {
		begin := time.Now()
		b.patch(ctx, l.contender, l.namespace, map[string]any{"template": map[string]any{"spec": podSpec(image, "2")}})
		measure.Until(ctx, 100*time.Millisecond, "the update of all pods", func() bool { return b.updated(ctx, l.contender, l.namespace, l.n) })
		l.Add(time.Since(begin).Seconds(), name)
		b.waitQuiet(ctx)
	}
	if l.contender.updates && (b.Full || !l.contender.kruise()) {
		change(image, "recreated")
	}
	if l.contender.inPlace {
		made, computed := b.counting(ctx, l), b.computed()
		change(other, "in place")
		made("updated")
		all := 0.0
		for name, seconds := range b.computed() {
			all += seconds - computed[name]
			if name == l.contender.creator() {
				l.Add(seconds-computed[name], "updated", "CPU")
			}
		}
		l.Add(all, "updated", "CPU of all")
	}
}

// replace deletes some of the pods, one after the other. It waits until the replacement of
// each is Ready.
func (b *bench) replace(ctx context.Context, l *lap) {
	pods := b.Kube.CoreV1().Pods(l.namespace)
	list := measure.Must(pods.List(ctx, metav1.ListOptions{})).Items
	deletions := min(b.Deletions, l.n)
	for i := range deletions {
		pod := list[i*l.n/deletions]
		had := l.pods.Now().Created
		begin := time.Now()
		// Without a grace period the pod is gone with the answer, so no contender waits for a kubelet.
		options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
		options.GracePeriodSeconds = new(int64)
		measure.Check(pods.Delete(ctx, pod.Name, *options))
		replaced := func(p measure.Point) bool { return p.Created > had }
		l.pods.Wait(ctx, "pod "+pod.Name+" is replaced", replaced)
		l.Add(measure.Milliseconds(l.pods.First(begin, replaced)), "replaced, ms")
		l.pods.Wait(ctx, "it is Ready", func(p measure.Point) bool { return p.Ready == l.n })
	}
}

// addComputed adds the CPU time of each component, and its sum as a share of the machine. If
// the sum is far below the whole machine, the contender was waiting, not working.
func (l *lap) addComputed(until string, took time.Duration, before, after map[string]float64) {
	all := 0.0
	until = "CPU until " + until
	for _, name := range components {
		l.Add(after[name]-before[name], until, name)
		all += after[name] - before[name]
	}
	l.Add(all, until, "all")
	l.Add(100*all/took.Seconds()/float64(runtime.NumCPU()), until, "%")
}
