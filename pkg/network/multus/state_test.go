package multus

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestNumbers(t *testing.T) {
	seen := map[int32]int{}
	for _, uid := range []types.UID{"a", "b", "5b0c5b9e-6c55-4b6f-9d2c-0d6b5a3a2f11", "5b0c5b9e-6c55-4b6f-9d2c-0d6b5a3a2f12"} {
		for _, n := range Numbers(uid, 100) {
			seen[n]++
			if n < FirstVNI || n > lastVNI {
				t.Errorf("%d is out of range", n)
			}
		}
	}
	if len(seen) < 395 {
		t.Errorf("400 tries returned only %d numbers", len(seen))
	}
}

// A controller of the next version must try the numbers of this one first.
func TestNumbersStay(t *testing.T) {
	if got, want := Numbers("u1", 3), []int32{3880099, 3814128, 4012041}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCandidates(t *testing.T) {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Status: v1.NetworkStatus{VNI: 70000}}
	numbers := Numbers("u1", candidates)
	got := Candidates(n, func(vni string) bool { return vni == Name(numbers[0]) })
	if want := append(numbers[1:], 70000); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Candidates(n, func(string) bool { return true }); len(got) > 0 {
		t.Errorf("got %v, although all are taken", got)
	}
}

func TestVNIsThatAreNoNumbersCountForNothing(t *testing.T) {
	for _, name := range []string{"", "0", "-1", "007", "16777216", "4294967297", "1e3"} {
		s := state(func(s *State) { s.VNIs = append(s.VNIs, vni(name, "u0")) })
		if p := Diff(s); !p.Empty() {
			t.Errorf("%q: %s", name, p)
		}
	}

}
