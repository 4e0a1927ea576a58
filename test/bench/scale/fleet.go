package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/bench/measure"
)

// fleet has the pods that a watch of all pods has seen. A pod must have the addresses of the pod before it
// with the same name, and no other pod may ever have them: every Pod2 keeps its replicas.
type fleet struct {
	addresses
	seen  map[types.UID]time.Time // pods without addresses, and when the watch saw them first
	waits []float64               // ms from then until the watch saw the addresses
	last  time.Time               // when the watch saw the last addresses
	pods  *measure.Pods
}

func (b *bench) watchFleet(ctx context.Context) *fleet {
	f := &fleet{addresses: newAddresses(), seen: map[types.UID]time.Time{}}
	f.pods = b.WatchPods(ctx, namespace, f.note)
	return f
}

func (f *fleet) stop() { f.pods.Stop() }

// note an event, at most one at once. A fault stays until check reports it.
func (f *fleet) note(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || event.Type == watch.Deleted {
		return
	}
	now := time.Now()
	published := pod.Annotations[samplecrdv1.AddressesAnnotation]
	since, waits := f.seen[pod.UID]
	switch {
	case published == "" && !waits:
		f.seen[pod.UID] = now
	case published != "" && waits:
		f.waits, f.last = append(f.waits, measure.Milliseconds(now.Sub(since))), now
		delete(f.seen, pod.UID)
		f.add(pod)
	}
}

// addresses of pods, by name and Network.
type addresses struct {
	of      map[string]netip.Addr // by pod and Network
	holders map[string]string     // pods, by Network and address
	fault   error                 // the first
}

func newAddresses() addresses {
	return addresses{of: map[string]netip.Addr{}, holders: map[string]string{}}
}

// add the addresses of a pod.
func (a *addresses) add(pod *corev1.Pod) {
	published, err := attachment.ParseAddresses(pod.Annotations[samplecrdv1.AddressesAnnotation])
	if err != nil {
		a.fail(fmt.Errorf("annotation of pod %s: %w", pod.Name, err))
	}
	for network, address := range published {
		is := address.Address.Addr()
		on, held := pod.Name+" on "+network, fmt.Sprint(network, " ", is)
		if was := a.of[on]; was.IsValid() && was != is {
			a.fail(fmt.Errorf("pod %s had address %s and now has %s", on, was, is))
		}
		if other := a.holders[held]; other != "" && other != pod.Name {
			a.fail(fmt.Errorf("pods %s and %s both have address %s", other, pod.Name, held))
		}
		a.of[on], a.holders[held] = is, pod.Name
	}
}

func (a *addresses) fail(err error) {
	if a.fault == nil {
		a.fault = err
	}
}

// wait until the pods are as wanted, and print progress. It ends the run at the first address
// that is used twice or that a pod has lost.
func (f *fleet) wait(ctx context.Context, what string, wanted func(measure.Point) bool) measure.Point {
	told := time.Now()
	var now measure.Point
	measure.Until(ctx, 200*time.Millisecond, what, func() bool {
		now = f.pods.Now()
		f.check()
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			measure.Say("wait until %s: %d pods, %d Ready, %d created so far", what, now.Exist, now.Ready, now.Created)
		}
		return wanted(now)
	})
	return now
}

func (f *fleet) check() {
	var fault error
	f.pods.Do(func() { fault = f.fault })
	measure.Check(fault)
}
