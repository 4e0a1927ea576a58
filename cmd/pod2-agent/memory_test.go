//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// A node with a pod on a Network of 150,000 pods needs less than 70 MiB for their entries and slices.
func TestMemoryOfALargeNetwork(t *testing.T) {
	const pods, hosts, perSlice, limit = 150_000, 5_000, 50, 70 << 20
	list := func(context.Context, metav1.ListOptions) (kruntime.Object, error) {
		all := &v1.AddressSliceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for i := range pods / perSlice {
			s := sliceOf("blue", 1+i)
			s.UID, s.Annotations = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), map[string]string{"x": s.Name}
			for j := range perSlice {
				n := i*perSlice + j
				host := n % hosts
				s.Spec.Locations[netip.AddrFrom4([4]byte{10, 1 + byte(n>>16), byte(n >> 8), byte(n)}).String()] = netip.AddrFrom4([4]byte{172, 16, byte(host >> 8), byte(host)}).String()
			}
			all.Items = append(all.Items, *s)
		}
		return all, nil
	}
	var mu sync.Mutex
	desired := tables.New("n1")
	desired.SetNode([]netip.Addr{netip.MustParseAddr("172.31.0.1")})
	desired.SetPort(tables.LocalPort{Interface: 7, Pod: "u", Namespace: "default", Network: "blue"})
	desired.SetSlice(dataplane.Slice{Namespace: "default", Network: "blue", Name: "blue-0",
		Overlay: &dataplane.Network{Namespace: "default", Name: "blue", VNI: 70001, CIDR: netip.MustParsePrefix("10.0.0.0/8"), MTU: 1450}})
	before := heap()
	lw := &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
		if o.SendInitialEvents != nil {
			return nil, errors.NewBadRequest("this server lists") // as API servers without WatchList
		}
		return apiwatch.NewFake(), nil
	}}
	informer := cache.NewSharedIndexInformer(lw, &v1.AddressSlice{}, resyncCaches, nil)
	slices := watch(informer, func(s *v1.AddressSlice) (dataplane.Slice, bool) { return dataplane.SliceOf(s, 1500), true }, func(s dataplane.Slice) {
		mu.Lock()
		defer mu.Unlock()
		desired.SetSlice(s)
	}, func(dataplane.Slice) {})
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), slices.told) {
		t.Fatal("not synced")
	}
	mu.Lock()
	defer mu.Unlock()
	used := heap() - before
	t.Logf("%d pods on %d hosts: %.1f MiB", pods, hosts, float64(used)/(1<<20))
	if got := desired.Size()["pod"]; got != pods || used > limit {
		t.Errorf("%d entries and %d bytes, want %d and at most %d", got, used, pods, limit)
	}
	runtime.KeepAlive(informer)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
