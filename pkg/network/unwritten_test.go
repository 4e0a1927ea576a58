package network

import (
	"fmt"
	"strings"
	"testing"
)

// told renders the messages of Unwritten, with a "!" for an event.
func told(waits []Wait) string {
	var lines []string
	for _, w := range waits {
		event := ""
		if w.Event {
			event = "! "
		}
		lines = append(lines, event+w.Pod.Name+" "+w.Condition.Reason+": "+w.Condition.Message)
	}
	return strings.Join(lines, "\n")
}

func TestOnlyThosePodsAreToldWhoseBindingWasNotWritten(t *testing.T) {
	s := parse(t, `
		network blue 10.0.0.0/24
		10.0.0.2 Bound bound/u1
		pod bound/u1 gated asks=blue
		pod new/u2 gated asks=blue
		pod outside/u3 gated asks=blue=10.0.1.9
		pod runs/u4 has=blue:10.0.0.9/24`)
	if got, want := told(Unwritten(s, Diff(s).Blocks, "exceeded quota")), `! new NetworkNotReady: Network "blue" cannot serve: exceeded quota`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOfManyPodsTheFirstAreToldInFull(t *testing.T) {
	text := "network blue 10.0.0.0/24\n"
	for i := range podEvents + 1 {
		text += fmt.Sprintf("pod p-%02d/u%d gated asks=blue\n", i, i)
	}
	s := parse(t, text)
	all := strings.Split(told(Unwritten(s, Diff(s).Blocks, "exceeded quota")), "\n")
	got := all[podEvents-1] + "\n" + all[podEvents]
	if want := `! p-09 NetworkNotReady: Network "blue" cannot serve: exceeded quota
p-10 NetworkNotReady: Network "blue" cannot serve: its condition Ready says why`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
