package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/bench/measure"
)

// statusAge measures how old a status becomes while its pods change.
type statusAge struct {
	measure.Watched
	last    time.Time     // when the status changed last
	longest time.Duration // between two changes
}

// watchStatus watches the Pod2 of a namespace until stop is called.
func (b *bench) watchStatus(ctx context.Context, ns string) (age *statusAge, stop func()) {
	age = &statusAge{last: time.Now()}
	watch := measure.Must(b.Sample.SamplecrdV1().Pod2s(ns).Watch(ctx, metav1.ListOptions{}))
	go func() {
		for range watch.ResultChan() {
			age.Do(age.changed)
		}
	}()
	return age, watch.Stop
}

func (a *statusAge) changed() {
	now := time.Now()
	a.longest, a.last = max(a.longest, now.Sub(a.last)), now
}

// most is the longest time without a change, until now.
func (a *statusAge) most() (most time.Duration) {
	a.Do(func() { most = max(a.longest, time.Since(a.last)) })
	return most
}
