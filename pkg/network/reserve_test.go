package network

import (
	"strings"
	"testing"
)

func TestOver(t *testing.T) {
	const held = `
		network blue 10.0.0.0/29
		10.0.0.2 Bound a/u1 Job/once
		`
	checkPlans(t, []planTest{
		{"the pod is gone", held, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a; if terminated: a (u1)
			again in 1m0s`},
		{"a pod with another UID has its name", held + `pod a/u2 asks=blue`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a; if terminated: a (u1)
			again in 1m0s`},
		{"Succeeded, the object stays", held + `pod a/u1 has=blue:10.0.0.2/29 phase=Succeeded`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a; if terminated: a (u1)
			again in 1m0s`},
		{"Failed", held + `pod a/u1 has=blue:10.0.0.2/29 phase=Failed`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a; if terminated: a (u1)
			again in 1m0s`},
		{"a terminating pod has not terminated", held + `pod a/u1 has=blue:10.0.0.2/29 terminating`, ``},
		{"nor has one with phase Unknown", held + `pod a/u1 has=blue:10.0.0.2/29 phase=Unknown`, ``},
		{"an entry without UID names no live pod", `
			network blue 10.0.0.0/29
			10.0.0.2 Bound a
			pod a/u1 asks=blue`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a; if terminated: a ()
			again in 1m0s`},
	})
}

func TestReserve(t *testing.T) {
	checkPlans(t, []planTest{
		{"a replica of a Pod2 or of a StatefulSet", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			owner StatefulSet/db 1 green,blue
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Bound db-0/u2 StatefulSet/db`,
			`update block blue-10.0.0.0: reserve 10.0.0.2 for web-0; reserve 10.0.0.3 for db-0; if terminated: db-0 (u2), web-0 (u1)`},
		{"of an owner that does not ask for this Network", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 green
			10.0.0.2 Bound web-0/u1 Pod2/web`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0; if terminated: web-0 (u1)
			again in 1m0s`},
		{"it stays reserved", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web 100h`, ``},
		{"the owner is gone", `
			network blue 10.0.0.0/29
			10.0.0.2 Reserved web-0 Pod2/web 100h`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0
			again in 1m0s`},
		{"the owner no longer asks", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 green
			10.0.0.2 Reserved web-0 Pod2/web 100h`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0
			again in 1m0s`},
		{"the next pod with its name gets it, though lower ones are free", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.5 Reserved web-0 Pod2/web 100h
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2)`},
		{"rebind in one write", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.5 Bound web-0/u1 Pod2/web 100h
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2); if terminated: web-0 (u1)`},
		{"the reserved one rather than an older resting one", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.2 Resting web-0 Pod2/web 30s
			10.0.0.5 Reserved web-0 Pod2/web 10s
			pod web-0/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2)
			again in 30s`},
		{"not for a pod with the same name and another owner", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web 100h
			pod web-0/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.3 to web-0 (u2)`},
		{"a replica gets the address of a pod with its name and no owner: it may have adopted the pod", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.5 Bound web-0/u1 / 100h
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2); if terminated: web-0 (u1)`},
		{"also of a pod whose owner is gone", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.5 Resting web-0 StatefulSet/web 10s
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2)`},
		{"not if the pod's owner keeps it", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			owner StatefulSet/web 1 blue
			10.0.0.2 Reserved web-0 StatefulSet/web 10s
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.3 to web-0 (u2)`},
		{"excluded since, it stays the replica's", `
			network blue 10.0.0.0/29 exclude=10.0.0.5
			owner Pod2/web 1 blue
			10.0.0.5 Reserved web-0 Pod2/web 100h
			pod web-0/u2 gated asks=blue of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2)`},
	})
}

// A /30 has one address for pods: .2.
// The owner of a reserved address would ask which pod got it.
func TestReassignedIsReported(t *testing.T) {
	for _, c := range []struct{ name, pod, want string }{
		{"to another", "pod a/u1 gated asks=blue", "event Warning AddressReassigned: reassigned 10.0.0.2 from scaled-down replica web-3 to pod a\n"},
		{"back to its own", "pod web-3/u1 gated asks=blue of=Pod2/web", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := Diff(parse(t, `
				network blue 10.0.0.0/30
				10.0.0.2 Reserved web-3 Pod2/web 61s
				owner Pod2/web 3 blue
				`+c.pod))
			got := ""
			for line := range strings.Lines(plan.String()) {
				if strings.Contains(line, "Reassigned") {
					got += line
				}
			}
			if got != c.want {
				t.Errorf("got  %swant %s", got, c.want)
			}
		})
	}
}

func TestScaleDown(t *testing.T) {
	const reserved = `
		network blue 10.0.0.0/30
		10.0.0.2 Reserved web-3 Pod2/web 61s
		`
	checkPlans(t, []planTest{
		{"the pod of a scaled-down ordinal keeps it reserved", `
			network blue 10.0.0.0/30
			owner Pod2/web 3 blue
			10.0.0.2 Bound web-3/u1 Pod2/web`, `
			update block blue-10.0.0.0: reserve 10.0.0.2 for web-3; if terminated: web-3 (u1)
			again in 1m0s`},
		{"after the delay others can have it, and the status then says so", `
			network blue 10.0.0.0/30
			owner Pod2/web 3 blue
			10.0.0.2 Reserved web-3 Pod2/web 20s`,
			`again in 40s`},
		{"reassigned when nothing else is free", reserved + `
			owner Pod2/web 3 blue
			pod a/u1 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"also on request", reserved + `
			owner Pod2/web 3 blue
			pod a/u1 gated asks=blue=10.0.0.2`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"never while the owner has the ordinal", reserved + `
			owner Pod2/web 4 blue
			pod a/u1 gated asks=blue`,
			`a (u1) waits: NetworkExhausted: Network "blue" has no free address. 1 address is reserved for a replica that does not run now. Grow its spec.cidr`},
		{"ordinals begin at start", reserved + `
			owner Pod2/web 1 blue start=3
			pod a/u1 gated asks=blue`,
			`a (u1) waits: NetworkExhausted: Network "blue" has no free address. 1 address is reserved for a replica that does not run now. Grow its spec.cidr`},
		{"scaled up again, the replica has it back", reserved + `
			owner Pod2/web 4 blue
			pod a/u1 gated asks=blue age=2h
			pod web-3/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to web-3 (u2)
			a (u1) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one`},
		{"only after it has rested; RequeueAfter says when", `
			network blue 10.0.0.0/30
			owner Pod2/web 3 blue
			10.0.0.2 Reserved web-3 Pod2/web 20s
			pod a/u1 gated asks=blue`, `
			a (u1) waits: NetworkExhausted: Network "blue" has no free address. 1 address is reserved for a scaled-down replica and can be reassigned from 2026-01-02T15:04:45Z on. Wait, or grow its spec.cidr
			again in 40s`},
		{"also for a pod that asks for it", `
			network blue 10.0.0.0/29
			owner Pod2/web 3 blue
			10.0.0.2 Reserved web-3 Pod2/web 20s
			pod a/u1 gated asks=blue=10.0.0.2`, `
			a (u1) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is reserved for pod web-3; wait until it is free, or ask for another one, or for none to get any
			again in 40s`},
		{"last, and the longest reserved first", `
			network blue 10.0.0.0/29
			owner Pod2/web 0 blue
			10.0.0.2 Reserved web-0 Pod2/web 2h
			10.0.0.3 Reserved web-1 Pod2/web 3h
			10.0.0.4 Reserved web-2 Pod2/web 4h
			10.0.0.5 Reserved web-3 Pod2/web 5h
			pod a/u1 gated asks=blue
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to b (u2); bind 10.0.0.6 to a (u1)`},
		{"if a pod cannot use it because another Network is missing, the next pod gets it", `
			network green 10.1.0.0/30
			owner Pod2/web 0 green
			10.1.0.2 Reserved web-0 Pod2/web 2h
			pod a/u1 gated asks=green,red
			pod b/u2 gated asks=green
			network red -`,
			`update block green-10.1.0.0: bind 10.1.0.2 to b (u2)`},
		{"an excluded one is not reassigned", `
			network blue 10.0.0.0/30 exclude=10.0.0.2
			owner Pod2/web 3 blue
			10.0.0.2 Reserved web-3 Pod2/web 61s
			pod a/u1 gated asks=blue`,
			`a (u1) waits: NetworkNotReady: Network "blue" cannot serve: spec.exclude leaves no address of 10.0.0.0/30 to hand out`},
	})
}

func TestAdopted(t *testing.T) {
	const owners = `
		network blue 10.0.0.0/29
		owner Pod2/web 2 blue
		10.0.0.2 Bound web-0/u1 StatefulSet/web 100h
		10.0.0.3 Bound web-1/u2 100h
		`
	checkPlans(t, []planTest{
		{"the address passes to the new owner of a live pod", owners + `
			pod web-0/u1 has=blue:10.0.0.2/29 of=Pod2/web
			pod web-1/u2 has=blue:10.0.0.3/29 of=Pod2/web`,
			`update block blue-10.0.0.0: pass 10.0.0.2 of web-0 to Pod2 web; pass 10.0.0.3 of web-1 to Pod2 web`},
		{"together with other changes", owners + `
			pod web-0/u1 has=blue:10.0.0.2/29 of=Pod2/web
			pod web-2/u3 gated asks=blue`, `
			update block blue-10.0.0.0: pass 10.0.0.2 of web-0 to Pod2 web; rest 10.0.0.3 of web-1; bind 10.0.0.4 to web-2 (u3); if terminated: web-1 (u2)
			again in 1m0s`},
		{"a gated pod that is bound and has yet to publish", owners + `
			pod web-0/u1 gated asks=blue of=Pod2/web
			pod web-1/u2 has=blue:10.0.0.3/29`,
			`update block blue-10.0.0.0: pass 10.0.0.2 of web-0 to Pod2 web`},
		{"without a controller the entry keeps its owner", owners + `
			pod web-0/u1 has=blue:10.0.0.2/29
			pod web-1/u2 has=blue:10.0.0.3/29`, ``},
		{"an entry of another UID or of a terminated pod is not passed", owners + `
			pod web-0/u9 of=Pod2/web
			pod web-1/u2 has=blue:10.0.0.3/29 of=Pod2/web phase=Failed`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0; rest 10.0.0.3 of web-1; if terminated: web-0 (u1), web-1 (u2)
			again in 1m0s`},
		{"a Network that is being deleted keeps no address", `
			network blue 10.0.0.0/29 terminating
			10.0.0.2 Bound web-0/u1 StatefulSet/web
			pod web-0/u1 has=blue:10.0.0.2/29 of=Pod2/web`, ``},
	})
}
