package network

import "testing"

func TestRest(t *testing.T) {
	checkPlans(t, []planTest{
		{"not for others", `
			network blue 10.0.0.0/30
			10.0.0.2 Resting a 59s
			pod b/u2 gated asks=blue`, `
			b (u2) waits: NetworkExhausted: Network "blue" has no free address. 1 address is resting until 2026-01-02T15:04:06Z. Wait, or grow its spec.cidr
			again in 1s`},
		{"free after reuseDelaySeconds", `
			network blue 10.0.0.0/30
			10.0.0.2 Resting a 60s
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to b (u2)`},
		{"for a pod with the same name and owner at once", `
			network blue 10.0.0.0/29
			10.0.0.4 Resting a 1s
			pod a/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.4 to a (u2)`},
		{"not for a pod with the same name and another owner", `
			network blue 10.0.0.0/29
			10.0.0.4 Resting a Job/once 1s
			pod a/u2 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to a (u2)
			again in 59s`},
		{"of two own addresses, the last one", `
			network blue 10.0.0.0/29
			10.0.0.2 Resting a 30s
			10.0.0.4 Resting a 10s
			pod a/u2 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.4 to a (u2)
			again in 30s`},
		{"excluded since, no pod gets it", `
			network blue 10.0.0.0/29 exclude=10.0.0.4
			10.0.0.4 Resting a 1s
			pod a/u2 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to a (u2)
			again in 59s`},
		{"delay 0: to another pod in the same write", `
			network blue 10.0.0.0/30 delay=0
			10.0.0.2 Bound a/u1
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to b (u2); if terminated: a (u1)`},
		{"delay 0: also a reserved one whose owner is gone", `
			network blue 10.0.0.0/30 delay=0
			10.0.0.2 Reserved web-0 Pod2/web
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to b (u2)`},
		{"RequeueAfter waits for the soonest; others stay", `
			network blue 10.0.0.0/29 delay=300
			10.0.0.2 Resting a 10s
			10.0.0.3 Resting b 290s
			10.0.0.4 Resting c 301s`, `
			update block blue-10.0.0.0: free 10.0.0.4 of c
			again in 10s`},
	})
}
