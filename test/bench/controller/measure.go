package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lap is what one contender did once, alone on a quiet cluster. A duration below zero
// was not measured.
type lap struct {
	contender string
	n         int
	begin     time.Time
	points    []point

	exist, ready, gone time.Duration
	recreated, inPlace time.Duration
	replaced           []time.Duration
	created            writes                   // of our controller
	deleted, updated   *writes                  // likewise, by scaling to zero and in place; nil: not measured
	unexplained        float64                  // of all these: what client and API server counted differently
	computed           map[string]time.Duration // by each of the components, until all are Ready
	peak               int64                    // of the controller that creates the pods, bytes
}

func (b *bench) measureAll(ctx context.Context, r *results) error {
	all := slices.DeleteFunc(contenders(), func(c contender) bool { return !b.only.MatchString(c.name) })
	fmt.Fprintln(os.Stderr, "Warming up ...")
	for _, c := range all {
		if _, err := b.lap(ctx, c, b.sizes[0]/4, false, false); err != nil {
			return err
		}
	}
	for round := range b.rounds {
		for _, n := range b.sizes {
			for i := range all {
				l, err := b.lap(ctx, all[turn(i, round, len(all))], n, round == 0, b.variant == "" && n == b.sizes[len(b.sizes)-1])
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%5.0fs  round %d  %s\n", time.Since(r.begin).Seconds(), round+1, l)
				r.laps = append(r.laps, l)
			}
		}
	}
	if b.large == 0 {
		return nil
	}
	if err := b.profileLaps(ctx, r); err != nil {
		return err
	}
	for _, c := range all {
		if c.name != deployment && c.name != pod2OnOne {
			continue
		}
		b.standing = nil
		if c.name == pod2OnOne {
			b.standing = &r.standing
		}
		l, err := b.lap(ctx, c, b.large, true, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%5.0fs  once  %s\n", time.Since(r.begin).Seconds(), l)
		r.laps = append(r.laps, l)
	}
	return nil
}

// turn is whose turn is the i-th of a round: each begins with another contender, and every
// other one goes the other way round, so that nobody always follows the same.
func turn(i, round, contenders int) int {
	if round%2 == 1 {
		i = contenders - 1 - i
	}
	return (i + round*3) % contenders
}

func (l lap) String() string {
	return fmt.Sprintf("%-36s %5d pods: exist %.1f s, Ready %.1f s, gone %.1f s, recreated %.1f s, in place %.1f s; writes %+v, %.0f unexplained; %+v in place, %+v to delete; CPU %.1f s (%s), %d MiB",
		l.contender, l.n, l.exist.Seconds(), l.ready.Seconds(), l.gone.Seconds(), l.recreated.Seconds(), l.inPlace.Seconds(),
		l.created, l.unexplained, l.updated, l.deleted, total(l.computed).Seconds(), shares(l.computed), l.peak>>20)
}

// lap brings n pods up and down. A whole one deletes some one by one in between; the first
// of a contender also scales to zero and, if it is a whole one, updates all before.
func (b *bench) lap(ctx context.Context, c contender, n int, first, whole bool) (l lap, err error) {
	l = lap{contender: c.name, n: n, recreated: -1, inPlace: -1}
	fail := func(what string, err error) (lap, error) {
		return l, fmt.Errorf("%s with %d pods: %s: %w", c.name, n, what, err)
	}
	ns, err := b.newNamespace(ctx)
	if err != nil {
		return fail("make a namespace", err)
	}
	for i, network := range c.networks {
		if err := b.newNetwork(ctx, ns, network, i); err != nil {
			return fail("make Network "+network, err)
		}
	}
	pods, err := b.observe(ctx, ns)
	if err != nil {
		return fail("observe", err)
	}
	defer pods.watch.Stop()
	if err := b.waitQuiet(ctx); err != nil {
		return fail("before", err)
	}

	process := b.process(c.creator())
	if err := process.resetPeak(); err != nil {
		return fail("before", err)
	}
	computed, err := b.computed()
	if err != nil {
		return fail("before", err)
	}
	made, err := b.counting(ctx, c, ns, &l)
	if err != nil {
		return fail("before", err)
	}
	if b.begun != nil {
		b.begun()
	}
	l.begin = time.Now()
	if err := c.create(ctx, b, ns, n); err != nil {
		return fail("create", err)
	}
	up := func(p point) bool { return p.exist == n && p.ready == n }
	if _, err := pods.wait(ctx, "all are Ready", up); err != nil {
		return fail("create", err)
	}
	l.exist = pods.first(l.begin, func(p point) bool { return p.exist == n })
	l.ready = pods.first(l.begin, up)
	if l.computed, err = b.computed(); err != nil {
		return fail("after", err)
	}
	for name := range l.computed {
		l.computed[name] -= computed[name]
	}
	if l.peak, err = process.peak(); err != nil {
		return fail("after", err)
	}
	if err := b.waitQuiet(ctx); err != nil {
		return fail("created", err)
	}
	if l.created, err = made(); err != nil {
		return fail("created", err)
	}
	if b.standing != nil {
		if err := b.stand(ctx, n); err != nil {
			return fail("stand", err)
		}
	}
	if whole && first {
		if err := b.change(ctx, c, ns, n, &l); err != nil {
			return fail("change", err)
		}
	}
	if whole && c.replaces {
		if err := b.replace(ctx, ns, n, pods, &l); err != nil {
			return fail("replace", err)
		}
	}
	if c.scale != nil && first {
		if err := b.scaleToZero(ctx, c, ns, n, pods, &l); err != nil {
			return fail("scale", err)
		}
	}

	end := time.Now()
	if err := c.delete(ctx, b, ns); err != nil {
		return fail("delete", err)
	}
	gone, err := pods.wait(ctx, "all are gone", func(p point) bool { return p.exist == 0 })
	if err != nil {
		return fail("delete", err)
	}
	l.gone = gone.Sub(end)
	l.points = pods.points
	return l, nil
}

// scaleToZero counts the writes of our controller until all pods are gone, and has them
// come again, so that all lie the same when they are deleted.
func (b *bench) scaleToZero(ctx context.Context, c contender, ns string, n int, pods *timeline, l *lap) error {
	made, err := b.counting(ctx, c, ns, l)
	if err != nil {
		return err
	}
	if err := c.scale(ctx, b, ns, 0); err != nil {
		return fmt.Errorf("scale to zero: %w", err)
	}
	if _, err := pods.wait(ctx, "all are gone", func(p point) bool { return p.exist == 0 }); err != nil {
		return err
	}
	if err := b.waitQuiet(ctx); err != nil {
		return err
	}
	deleted, err := made()
	if err != nil {
		return err
	}
	l.deleted = &deleted
	if err := c.scale(ctx, b, ns, n); err != nil {
		return fmt.Errorf("scale up: %w", err)
	}
	if _, err := pods.wait(ctx, "all are Ready again", func(p point) bool { return p.exist == n && p.ready == n }); err != nil {
		return err
	}
	return b.waitQuiet(ctx)
}

// change has all pods recreated, then updated in place.
func (b *bench) change(ctx context.Context, c contender, ns string, n int, l *lap) (err error) {
	update := func(image, value string) (time.Duration, error) {
		begin := time.Now()
		if err := c.set(ctx, b, ns, image, value); err != nil {
			return 0, fmt.Errorf("change the template: %w", err)
		}
		err := poll(ctx, "the update of all", func(ctx context.Context) (bool, error) { return c.updated(ctx, b, ns, n) })
		took := time.Since(begin)
		if err != nil {
			return 0, err
		}
		return took, b.waitQuiet(ctx)
	}
	if c.set != nil {
		if l.recreated, err = update("registry.k8s.io/pause:3.10", "2"); err != nil {
			return fmt.Errorf("recreate: %w", err)
		}
	}
	if c.inPlace {
		made, err := b.counting(ctx, c, ns, l)
		if err != nil {
			return err
		}
		if l.inPlace, err = update("registry.k8s.io/pause:3.9", "2"); err != nil {
			return fmt.Errorf("update in place: %w", err)
		}
		updated, err := made()
		if err != nil {
			return err
		}
		l.updated = &updated
	}
	return nil
}

// replace deletes some of the pods, one after the other, each once the one before is Ready
// again.
func (b *bench) replace(ctx context.Context, ns string, n int, pods *timeline, l *lap) error {
	list, err := b.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	for i := range b.deletions {
		pod := list.Items[i*n/b.deletions]
		had, _ := pods.creations()
		begin := time.Now()
		// Without a grace period the pod is gone with the answer: no contender waits for a kubelet.
		options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
		options.GracePeriodSeconds = new(int64)
		if err := b.kube.CoreV1().Pods(ns).Delete(ctx, pod.Name, *options); err != nil {
			return fmt.Errorf("delete a pod: %w", err)
		}
		replaced := func(point) bool {
			now, at := pods.creations()
			if now == had+1 {
				l.replaced = append(l.replaced, at.Sub(begin))
			}
			return now > had
		}
		if _, err := pods.wait(ctx, "pod "+pod.Name+" is replaced", replaced); err != nil {
			return err
		}
		if _, err := pods.wait(ctx, "it is Ready", func(p point) bool { return p.ready == n }); err != nil {
			return err
		}
	}
	slices.Sort(l.replaced)
	return nil
}
