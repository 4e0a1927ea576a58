package history

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// largeNetwork has this number of bound addresses, 256 in each AddressBlock.
func largeNetwork(addresses int) State {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
	s := State{Now: ten, Namespace: "default", Name: "blue", Network: n, Nodes: map[types.UID]string{}}
	for first := 0; first < addresses; first += 256 {
		b := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("blue-10.1.%d.0", first/256)}, Spec: v1.AddressBlockSpec{NetworkUID: n.UID}}
		for i := range 256 {
			e := entry(fmt.Sprintf("web-%d", first+i), fmt.Sprintf("3f8c1d52-0000-4000-8000-%012d", first+i), 0)
			e.Address = fmt.Sprintf("10.1.%d.%d", first/256, i)
			b.Spec.Entries = append(b.Spec.Entries, e)
			s.Nodes[e.PodUID] = fmt.Sprintf("node-%d", (first+i)%500)
		}
		s.Blocks = append(s.Blocks, b)
	}
	return s
}

// allRecorded is the cache of the AddressHistories with this number of records.
func allRecorded(b *testing.B, records int) (all []*v1.AddressHistory) {
	for first := 0; first < records; first += full {
		h := &v1.AddressHistory{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("blue-%d", first/full)}}
		for i := first; i < min(first+full, records); i++ {
			h.Spec.Records = append(h.Spec.Records, v1.AddressRecord{
				Address: fmt.Sprintf("10.1.%d.%d", i/256%256, i%256), Pod: fmt.Sprintf("web-%d", i), PodUID: types.UID(fmt.Sprintf("3f8c1d52-0000-4000-8000-%012d", i)),
				Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"}, Node: fmt.Sprintf("node-%d", i%500), From: ptr.To(metav1.NewTime(ten)), Until: metav1.NewTime(ten.Add(time.Minute)),
			})
		}
		text, err := json.Marshal(h) // an informer decodes it
		if err != nil {
			b.Fatal(err)
		}
		is := &v1.AddressHistory{}
		if err := json.Unmarshal(text, is); err != nil {
			b.Fatal(err)
		}
		all = append(all, is)
	}
	return all
}

// BenchmarkMemory prints the memory that the history takes in a controller, in addition to the AddressBlocks
// of a Network in its cache, and that of each AddressHistory in its cache.
func BenchmarkMemory(b *testing.B) {
	large := largeNetwork(65536)
	for _, bb := range []struct {
		name string
		make func() any
	}{
		{"65536 addresses", func() any { return Diff(large).Seen }},
		{"1000 records", func() any { return allRecorded(b, 1000) }},
		{"10000 records", func() any { return allRecorded(b, 10000) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				before := live()
				kept := bb.make()
				b.ReportMetric(float64(live()-before)/(1<<20), "MiB")
				runtime.KeepAlive(kept)
			}
			runtime.KeepAlive(large)
		})
	}
}

// live is the size of all objects that are in use.
func live() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
