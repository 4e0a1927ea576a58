package network

import (
	"fmt"

	"github.com/pod2/pod2/internal/shorten"
)

// Unwritten tells pods why they wait if AddressBlocks that bind their addresses were not
// written, for example because of a quota for AddressBlocks. The first pods get the words
// of the API server; the others are referred to the Network's condition, see
// exhaustedText.
func Unwritten(s State, blocks []BlockWrite, failure string) []Wait {
	v, _ := newView(s)
	named := map[PodRef]bool{}
	for _, w := range blocks {
		for _, e := range w.Block.Spec.Entries {
			named[PodRef{e.Pod, e.PodUID}] = true
		}
	}
	var waits []Wait
	told := 0
	for _, pod := range s.Pods {
		if _, waits := Wants(pod); !waits || !named[PodRef{pod.Name, pod.UID}] {
			continue
		}
		if _, held := v.ledger.bound(pod.Name, pod.UID); held {
			continue
		}
		message := fmt.Sprintf("Network %q cannot serve: its condition Ready says why", v.name)
		if told++; told <= podEvents {
			message = shorten.To(fmt.Sprintf("Network %q cannot serve: %s", v.name, failure), shorten.EventMessage)
		}
		waits = append(waits, v.wait(pod, refusal{ReasonNetworkNotReady, message})...)
	}
	return withEvents(waits, s.Pods)
}
