package main

import "fmt"

// Summary has the three sentences for readers in a hurry.
func (r *report) Summary() []string {
	number := func(format, contender string, of ...any) string {
		return r.Number(format, append([]any{contender, r.N()}, of...)...)
	}
	address := func(allocator string) string { return r.Number("%.0f", "addresses", allocator, "per second") }
	return []string{
		fmt.Sprintf("%d pods are Ready after %s s if a Pod2 creates them with an address each, %s s without addresses, %s s if a Deployment does, and %s s if a CloneSet of OpenKruise does.", r.N(),
			number("%.1f", pod2OnOne, "ready"), number("%.1f", pod2, "ready"), number("%.1f", deployment, "ready"), number("%.1f", cloneSet, "ready")),
		fmt.Sprintf("To change the image of all these pods in place, Pod2 needs %s API writes for each pod, and OpenKruise %s (CloneSet) or %s (StatefulSet).",
			number("%.1f", pod2, "updated", "writes"), number("%.1f", cloneSet, "updated", "writes"), number("%.1f", advanced, "updated", "writes")),
		fmt.Sprintf("When sixteen pods at once wait for addresses, Pod2 gives them %s in a second, Spiderpool %s, and whereabouts %s, or %s with its fast IPAM.",
			address(pod2Each), address("Spiderpool"), address("whereabouts"), address("whereabouts, fast IPAM")),
	}
}

// Command of make that wrote the page.
func (r *report) Command() string {
	if r.Full {
		return "bench-full"
	}
	return "bench"
}

// Slowest is the machine's lowest speed in a lap, relative to its highest.
func (r *report) Slowest() float64 { return r.Of("speed").Least / r.Of("speed").Most }

// Unlimited is the number of requests a second that clients may send.
func (r *report) Unlimited() int { return unlimited }

// Each and All are the names of Pod2's rows among the allocators.
func (r *report) Each() string { return pod2Each }

// All is the other one.
func (r *report) All() string { return pod2All }

// Kept is the number of replicas that are deleted to see which keep their addresses.
func (r *report) Kept() int { return min(r.Addresses, mostKept) }
