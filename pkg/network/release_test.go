package network

import "testing"

func TestRelease(t *testing.T) {
	const scaled = `
		network blue 10.0.0.0/29
		owner Pod2/web 1 blue
		`
	checkPlans(t, []planTest{
		{"the replica was scaled away", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h release`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3; seal and let go`},
		{"lately: it rests for what is left of the delay", scaled + `10.0.0.3 Reserved web-3 Pod2/web 20s release`, `
			update block blue-10.0.0.0: rest 10.0.0.3 of web-3
			again in 40s`},
		{"nobody asks", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h`, ``},
		{"it was reserved anew since", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h release=101h`, ``},
		{"the replica is in the spec", scaled + `10.0.0.3 Reserved web-0 Pod2/web 100h release`, ``},
		{"its pod is still there", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			pod web-3/u3 terminating`, ``},
		{"its pod is over", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			pod web-3/u3 phase=Failed`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3; seal and let go`},
		{"it is bound", scaled + `
			10.0.0.3 Bound web-0/u1 Pod2/web 100h release
			pod web-0/u1 has=blue:10.0.0.3/29 of=Pod2/web`, ``},
		{"it rests", scaled + `10.0.0.3 Resting web-3 Pod2/web 10s release`, `again in 50s`},
		{"two, of which one is asked for", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			10.0.0.4 Reserved web-4 Pod2/web 100h`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3`},
		{"of a StatefulSet, and nothing rests", `
			network blue 10.0.0.0/29 delay=0
			owner StatefulSet/db 1 blue
			10.0.0.3 Reserved db-3 StatefulSet/db 100h release`,
			`update block blue-10.0.0.0: free 10.0.0.3 of db-3; seal and let go`},
	})
}
