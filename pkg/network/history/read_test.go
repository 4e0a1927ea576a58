package history

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func (r Reading) text() (text string) {
	for _, is := range r.Records {
		until := "now"
		if !is.Until.IsZero() {
			until = clock(is.Until.Time)
		}
		from := "?"
		if is.From != nil {
			from = clock(is.From.Time)
		}
		text += fmt.Sprintf("%s%s %s-%s\n", is.Pod, map[bool]string{true: "gap"}[is.Gap], from, until)
	}
	return text
}

func TestRead(t *testing.T) {
	s := tell(bound("a", "1", 0), bound("b", "2", 9), bound("c", "3", 20)) // a and b are recorded at 20

	s.state.Histories[0].Spec.Records = append(s.state.Histories[0].Spec.Records, v1.AddressRecord{Address: "10.1.0.9", Pod: "z", Until: metav1.NewTime(at(21))})
	later := s.state.Histories[0].DeepCopy()
	later.Name, later.Spec.Since, later.Spec.Records = "blue-2", metav1.NewTime(at(28)), nil
	s.state.Histories = append(s.state.Histories, later)
	s.state.Network.Spec.AddressHistory = &v1.AddressHistoryBounds{MaxAgeSeconds: ptr.To[int32](60)}
	read := func(seconds int) Reading {
		return Read(s.state.Network, s.state.Histories, s.state.Blocks, at(seconds))
	}
	for _, tt := range []struct {
		name, got, want string
	}{
		{"all", read(30).text(), "a 10:00:00-10:00:09\nb 10:00:09-10:00:20\nz ?-10:00:21\ngap 10:00:20-10:00:28\nc 10:00:20-now\n"},
		{"of a pod", read(30).Of("b").text(), "b 10:00:09-10:00:20\ngap 10:00:20-10:00:28\n"},
		{"of an address", read(30).Of("10.1.0.9").text(), "z ?-10:00:21\ngap 10:00:20-10:00:28\n"},
		{"at a time", read(30).At(at(9)).text(), "b 10:00:09-10:00:20\nz ?-10:00:21\n"},
		{"at the time of a gap", read(30).At(at(26)).text(), "gap 10:00:20-10:00:28\nc 10:00:20-now\n"},
		{"without old records", read(75).text(), "b 10:00:09-10:00:20\nz ?-10:00:21\ngap 10:00:20-10:00:28\nc 10:00:20-now\n"},
		{"begins", read(30).Since.Format(time.TimeOnly) + " " + read(75).Since.Format(time.TimeOnly), "10:00:00 10:00:15"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, tt.got, tt.want)
		}
	}
}
