package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// drip starts some pods at each interval, all on one Network. Each runs for two minutes. It returns
// the writes for each pod in half an hour.
func drip(t *testing.T, pods int, every time.Duration) float64 {
	const minutes = 30
	s, block := tell(nil), []v1.AddressEntry(nil)
	s.state.Histories = nil
	writes, started := 0, 0
	for second := range minutes * 60 {
		now := metav1.NewTime(at(second))
		block = slices.DeleteFunc(slices.Clone(block), func(e v1.AddressEntry) bool { return now.Sub(e.Since.Time) >= 2*time.Minute })
		if time.Duration(second)*time.Second%every == 0 {
			for range pods {
				started++
				uid := fmt.Sprint(started)
				block = append(block, v1.AddressEntry{Address: "10.1.0." + uid, Pod: "job-" + uid, PodUID: types.UID(uid), State: v1.AddressBound, Since: now})
			}
		}
		if was := s.state.Blocks[0]; !slices.Equal(was.Spec.Entries, block) {
			is := was.DeepCopy()
			is.Spec.Entries, is.Generation = block, int64(second+1)
			s.state.Blocks = []*v1.AddressBlock{is}
		}
		s.now = second
		p := s.sync()
		for _, d := range p.Delete {
			s.state.Histories = slices.DeleteFunc(s.state.Histories, func(h *v1.AddressHistory) bool { return h.Name == d.Name })
		}
		if !p.Empty() {
			writes++
		}
	}
	each := float64(writes) / float64(started)
	t.Logf("%4d pods every %-5s %6.4f writes for each pod, %6.4f each second", pods, every, each, float64(writes)/(minutes*60))
	return each
}

// The history costs at most 0.02 writes for each pod if many pods end together, and at most two if
// they end alone.
func TestWritesForEachPod(t *testing.T) {
	for _, tt := range []struct {
		pods  int
		every time.Duration
		most  float64
	}{
		{1000, 10 * time.Minute, 0.02},
		{100, time.Minute, 0.02},
		{10, time.Second, 0.02},
		{1, time.Second, 0.13},
		{1, 10 * time.Second, 1},
		{1, 5 * time.Minute, 2},
	} {
		if is := drip(t, tt.pods, tt.every); is > tt.most {
			t.Errorf("%d pods every %s: %.4f writes for each pod, want at most %g", tt.pods, tt.every, is, tt.most)
		}
	}
}
