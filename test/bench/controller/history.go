package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/history"
	"github.com/pod2/pod2/test/bench/measure"
)

// historyWrites is the API server's count of the writes of AddressHistories. The garbage
// collector deletes them after each lap.
func (b *bench) historyWrites(ctx context.Context) float64 {
	return b.server(ctx).Sum("apiserver_request_total", func(l map[string]string) bool {
		return l["resource"] == "addresshistories" && writing[l["verb"]]
	})
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
