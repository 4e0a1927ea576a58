package network

import "testing"

func TestRelease(t *testing.T) {
	const scaled = `
		network blue 10.0.0.0/29
		owner Pod2/web 1 blue
		`
	checkPlans(t, []planTest{
		{"the replica was scaled down", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h release`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3; seal and remove finalizer`},
		{"the replica was scaled down lately: the address rests for the rest of the delay", scaled + `10.0.0.3 Reserved web-3 Pod2/web 20s release`, `
			update block blue-10.0.0.0: rest 10.0.0.3 of web-3
			again in 40s`},
		{"no request", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h`, ``},
		{"it was reserved again since", scaled + `10.0.0.3 Reserved web-3 Pod2/web 100h release=101h`, ``},
		{"the replica is in the spec", scaled + `10.0.0.3 Reserved web-0 Pod2/web 100h release`, ``},
		{"its pod still exists", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			pod web-3/u3 terminating`, ``},
		{"its pod terminated", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			pod web-3/u3 phase=Failed`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3; seal and remove finalizer`},
		{"it is bound", scaled + `
			10.0.0.3 Bound web-0/u1 Pod2/web 100h release
			pod web-0/u1 has=blue:10.0.0.3/29 of=Pod2/web`, ``},
		{"it rests", scaled + `10.0.0.3 Resting web-3 Pod2/web 10s release`, `again in 50s`},
		{"two reservations, and a request for one", scaled + `
			10.0.0.3 Reserved web-3 Pod2/web 100h release
			10.0.0.4 Reserved web-4 Pod2/web 100h`,
			`update block blue-10.0.0.0: free 10.0.0.3 of web-3`},
		{"of a StatefulSet, without a delay", `
			network blue 10.0.0.0/29 delay=0
			owner StatefulSet/db 1 blue
			10.0.0.3 Reserved db-3 StatefulSet/db 100h release`,
			`update block blue-10.0.0.0: free 10.0.0.3 of db-3; seal and remove finalizer`},
	})
}
