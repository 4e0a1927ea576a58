package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/history"
	"github.com/pod2/pod2/test/bench/measure"
)

// histories is the resource of AddressHistories in the audit log.
const histories = "addresshistories"

// countHistory returns a function that returns the Pod2 controller's writes of AddressHistories
// since now. Other counts may begin and end meanwhile.
func (b *bench) countHistory() func() int {
	b.Audit.Read()
	audit := *b.Audit
	return func() int {
		return audit.Read().Sum(func(w measure.Write) bool { return w.User == pod2User && w.Resource == histories })
	}
}

// waitHistory waits until the newest AddressHistory of each Network of the lap knows the current
// holders of all addresses. That takes a minute after pods started, and eight seconds after
// they ended.
func (b *bench) waitHistory(ctx context.Context, l *lap) {
	sample := b.Sample.SamplecrdV1()
	for _, name := range l.contender.networks {
		measure.Until(ctx, 100*time.Millisecond, "the history of Network "+name, func() bool {
			n := measure.Must(sample.Networks(l.namespace).Get(ctx, name, metav1.GetOptions{}))
			all := pointers(measure.Must(sample.AddressHistories(l.namespace).List(ctx, metav1.ListOptions{})).Items)
			blocks := pointers(measure.Must(sample.AddressBlocks(l.namespace).List(ctx, metav1.ListOptions{})).Items)
			held, _ := history.Checksums(n, blocks)
			own := history.Sorted(n, all)
			return len(own) > 0 && own[len(own)-1].Spec.Holders == held
		})
	}
}

func pointers[T samplecrdv1.AddressHistory | samplecrdv1.AddressBlock](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
