package network

import "testing"

// web-0 and web-1 swap 10.0.0.2 and 10.0.0.3: each waits for the address of the other.
func TestReplicasSwapAddresses(t *testing.T) {
	const given = `
		network blue 10.0.0.0/29
		owner Pod2/web 2 blue
		10.0.0.2 Bound web-0/u1 Pod2/web 100h
		`
	const waits = `
		pod web-1/u3 gated asks=blue=10.0.0.2 of=Pod2/web`
	checkPlans(t, []planTest{
		{"an address that the other replica gave up", `
			network blue 10.0.0.0/29
			owner Pod2/web 2 blue
			10.0.0.2 Reserved web-0 Pod2/web 100h
			10.0.0.3 Reserved web-1 Pod2/web 100h
			pod web-0/u4 gated asks=blue=10.0.0.3 of=Pod2/web
			pod web-1/u3 gated asks=blue=10.0.0.2 of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to web-1 (u3); bind 10.0.0.3 to web-0 (u4)`},
		{"not before it has rested", given + `
			10.0.0.3 Reserved web-1 Pod2/web 20s
			pod web-0/u4 gated asks=blue=10.0.0.3 of=Pod2/web` + waits, `
			update block blue-10.0.0.0: reserve 10.0.0.2 for web-0; if terminated: web-0 (u1)
			web-0 (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any
			web-1 (u3) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is reserved for pod web-0; wait until it is free, or ask for another one, or for none to get any
			again in 40s`},
		{"nor does a pod of another owner change when it has rested", given + `
			10.0.0.3 Reserved web-1 Pod2/web 20s
			pod web-0/u4 gated asks=blue=10.0.0.3 of=Pod2/web age=15s
			pod x/u9 gated asks=blue=10.0.0.3 age=5s` + waits, `
			update block blue-10.0.0.0: reserve 10.0.0.2 for web-0; if terminated: web-0 (u1)
			web-1 (u3) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is reserved for pod web-0; wait until it is free, or ask for another one, or for none to get any
			web-0 (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any
			x (u9) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any
			again in 40s`},
		{"not while the other replica may ask for it again", `
			network blue 10.0.0.0/29
			owner Pod2/web 2 blue
			10.0.0.3 Reserved web-1 Pod2/web 100h
			pod web-0/u4 gated asks=blue=10.0.0.3 of=Pod2/web`, `
			web-0 (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any`},
		{"not if the other replica asks for any address", `
			network blue 10.0.0.0/30
			owner Pod2/web 2 blue
			10.0.0.2 Reserved web-1 Pod2/web 100h
			pod web-0/u4 gated asks=blue=10.0.0.2 of=Pod2/web
			pod web-1/u3 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to web-1 (u3)
			web-0 (u4) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any`},
		{"not for a pod of another owner", `
			network blue 10.0.0.0/29
			owner Pod2/web 2 blue
			10.0.0.3 Reserved web-1 Pod2/web 100h
			10.0.0.2 Bound x/u2 / 100h
			pod x/u2 has=blue:10.0.0.2/29
			pod db-0/u4 gated asks=blue=10.0.0.3 of=Pod2/db
			pod web-1/u3 gated asks=blue=10.0.0.2 of=Pod2/web`, `
			db-0 (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-1; wait until it is free, or ask for another one, or for none to get any
			web-1 (u3) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is held by pod x; wait until it is free, or ask for another one, or for none to get any`},
	})
}
