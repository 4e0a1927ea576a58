package tables

import (
	"strings"
	"testing"
)

// Changes of the events below the line ---, and the problems after them.
func TestChanges(t *testing.T) {
	const nodes = "node n1 10.0.0.1\nnode n2 10.0.0.2\nnode n3 10.0.0.3\n"
	const blue = nodes + "network blue 1001 192.168.0.0/24\n"
	const a = blue + "pod a n1 blue=192.168.0.2\nport 7 u-a blue\n"
	const ab = a + "pod b n2 blue=192.168.0.3\n"
	for _, tt := range []struct{ name, in, want string }{
		{"a node, a second one of its address, and neither", "node n1 10.0.0.1\n---\nnode n2 10.0.0.2\nnode n3 10.0.0.2\nnode- n2\nnode- n3", `
			nodes set 10.0.0.2
			nodes delete 10.0.0.2`},
		{"the first pod here: its port comes first, the Network is complete before it opens", blue + "pod b n2 blue=192.168.0.3\npod a n1 blue=192.168.0.2\nport- 7\nnetwork- blue\nport 7 u-a blue\nrouter 9 1001\n---\nnetwork blue 1001 192.168.0.0/24", `
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			ports set 9 -> 1001 02:00:5e:00:03:e9 router 192.168.0.1
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.2 192.168.0.3
			networks set 1001 -> mtu 1450 gateway 192.168.0.1 router 9`},
		{"a pod here without its port, and the port", blue + "---\npod a n1 blue=192.168.0.2\nport 7 u-a blue", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2`},
		{"a port without its pod is closed", blue + "---\nport 7 u-a blue", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1`},
		{"the port of an earlier pod with this name is closed", a + "---\npod a n1 blue=192.168.0.2 uid=u-new", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7`},
		{"a port of a pod that is elsewhere is closed", blue + "pod a n2 blue=192.168.0.2\n---\nport 7 u-a blue", `
			places set 1001 0a:58:c0:a8:00:02 -> node 10.0.0.2 192.168.0.2
			networks set 1001 -> mtu 1450 gateway 192.168.0.1`},
		{"an address that moves is one set", ab + "---\npod b n3 uid=u-new blue=192.168.0.3", `
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.3 192.168.0.3`},
		{"away from here: the place first", a + "pod z n1 blue=192.168.0.9\n---\npod a n2 uid=u-new blue=192.168.0.2", `
			places set 1001 0a:58:c0:a8:00:02 -> node 10.0.0.2 192.168.0.2
			ports delete 7`},
		{"the last pod here is deleted: its port keeps the Network open", ab + "---\npod- a\nport- 7", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7
			places delete 1001 0a:58:c0:a8:00:03
			networks delete 1001`},
		{"an index that is used again: the place of the old pod is removed first", ab + "pod c n1 blue=192.168.0.4\n---\nport 7 u-c blue", `
			places delete 1001 0a:58:c0:a8:00:02
			ports set 7 -> 1001 0a:58:c0:a8:00:04 192.168.0.4
			places set 1001 0a:58:c0:a8:00:04 -> port 7 192.168.0.4`},
		{"an index that is used again, and an earlier port of the old pod", a + "port 6 u-a blue\npod c n1 blue=192.168.0.4\n---\nport 7 u-c blue", `
			ports set 6 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 6 192.168.0.2
			ports set 7 -> 1001 0a:58:c0:a8:00:04 192.168.0.4
			places set 1001 0a:58:c0:a8:00:04 -> port 7 192.168.0.4`},
		{"the index of a router becomes a pod's", a + "router 9 1001\npod c n1 blue=192.168.0.4\n---\nport 9 u-c blue", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1
			ports set 9 -> 1001 0a:58:c0:a8:00:04 192.168.0.4
			places set 1001 0a:58:c0:a8:00:04 -> port 9 192.168.0.4`},
		{"a second port of a pod: the newest", a + "---\nport 8 u-a blue", `
			ports set 8 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 8 192.168.0.2
			ports delete 7`},
		{"two pods that have one address: the newer has it, and the older again after it", ab + "---\npod c n3 blue=192.168.0.3 created=5\npod- c", `
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.3 192.168.0.3
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.2 192.168.0.3`},
		{"the loser's port is closed", a + "pod d n1 blue=192.168.0.5\n---\npod c n3 blue=192.168.0.2 created=5", `
			places set 1001 0a:58:c0:a8:00:02 -> node 10.0.0.3 192.168.0.2
			ports delete 7
			problem: Network default/blue: pods a and c both have address 192.168.0.2; the newer pod, c, receives its packets`},
		{"two pods that have one MAC address, of one age: the higher UID", ab + "---\npod c n3 blue=192.168.0.4 mac=0a:58:c0:a8:00:03", `
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.3 192.168.0.4
			problem: Network default/blue: pods b and c both have MAC address 0a:58:c0:a8:00:03; the newer pod, c, receives its packets`},
		{"addresses that do not count: outside, the gateway's, its MAC address", a + "---\npod b n2 blue=10.0.0.3\npod c n2 blue=192.168.0.1\npod d n2 blue=192.168.0.4 mac=02:00:5e:00:03:e9\npod e n1 blue=192.168.0.1\nport 8 u-e blue", ``},
		{"another namespace: its pod is on no Network, and the pod of this one has no port there", a + "network blue 1002 192.168.0.0/24 ns=other\nport 6 u-x blue ns=other\n---\npod b n2 blue=192.168.0.3 ns=third\nport 8 u-a blue ns=other", ``},
		{"a Network that is deleted and made again with another VNI", a + "---\nnetwork- blue\nnetwork blue 1002 192.168.0.0/24", `
			places delete 1001 0a:58:c0:a8:00:02
			networks delete 1001
			ports delete 7
			ports set 7 -> 1002 0a:58:c0:a8:00:02 192.168.0.2
			places set 1002 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			networks set 1002 -> mtu 1450 gateway 192.168.0.1`},
		{"a Network grows", a + "pod b n2 blue=192.168.1.3\n---\nnetwork blue 1001 192.168.0.0/23", `
			places set 1001 0a:58:c0:a8:01:03 -> node 10.0.0.2 192.168.1.3`},
		{"another MTU", ab + "---\nnetwork blue 1001 192.168.0.0/24 mtu=1400", `
			networks set 1001 -> mtu 1400 gateway 192.168.0.1`},
		{"two Networks of one VNI: the first name", a + "---\nnetwork alt 1001 192.168.0.0/16", `
			places delete 1001 0a:58:c0:a8:00:02
			networks delete 1001
			ports delete 7
			problem: Networks default/alt and default/blue both have VNI 1001; only the first is served`},
		{"a Network without a gateway has no router", nodes + "network one 1001 192.168.0.2/32\nrouter 9 1001\n---\npod a n1 one=192.168.0.2", `
			networks set 1001 -> mtu 1450`},
		{"a node loses its address", ab + "---\nnode n2", `
			places delete 1001 0a:58:c0:a8:00:03
			nodes delete 10.0.0.2`},
		{"a node has another address", ab + "---\nnode n2 10.0.0.9 fd0a::2", `
			nodes set 10.0.0.9
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.9 192.168.0.3
			nodes delete 10.0.0.2`},
		{"a node of another family", ab + "---\nnode n2 fd0a::2", `
			places delete 1001 0a:58:c0:a8:00:03
			nodes delete 10.0.0.2
			problem: node n2: the Node has no address that this node, 10.0.0.1, can send VXLAN to; its pods are unreachable`},
		{"a node with the address of this node", ab + "---\nnode n2 10.0.0.1", `
			places delete 1001 0a:58:c0:a8:00:03
			nodes delete 10.0.0.2
			problem: node n2: the Node has no address that this node, 10.0.0.1, can send VXLAN to; its pods are unreachable`},
		{"this node loses its address: nothing changes", ab + "---\nnode n1\nnode- n1", `
			problem: node n1: the Node has no address that other nodes can send to; VXLAN stays as it was`},
		{"this node changes its family", ab + "node n2 10.0.0.2 fd0a::2\n---\nnode n1 fd0a::1", `
			nodes set fd0a::2
			places set 1001 0a:58:c0:a8:00:03 -> node fd0a::2 192.168.0.3
			nodes delete 10.0.0.2
			nodes delete 10.0.0.3`},
		{"a late deletion of an earlier pod", ab + "pod b n3 uid=u-new blue=192.168.0.3\n---\npod- b uid=u-b", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, got, shown := newWorld(), "", false
			for line := range strings.Lines(tt.in) {
				if line = strings.TrimSpace(line); line == "---" {
					shown = true
					continue
				}
				changes := w.event(t, line)
				w.apply(t, changes)
				if shown {
					got += render(changes)
				}
			}
			for _, problem := range w.desired.Problems() {
				got += "problem: " + problem + "\n"
			}
			w.check(t)
			expect(t, got, tt.want)
		})
	}
}

// Two ports are swapped, as a damaged map may have them: neither can be first.
func TestDiffOfASwap(t *testing.T) {
	worlds := [2]*world{newWorld(), newWorld()}
	for i, w := range worlds {
		for _, line := range []string{"network blue 1001 192.168.0.0/24", "pod a n1 blue=192.168.0.2", "pod b n1 blue=192.168.0.3",
			[]string{"port 7 u-a blue", "port 8 u-a blue"}[i], []string{"port 8 u-b blue", "port 7 u-b blue"}[i]} {
			w.apply(t, w.event(t, line))
		}
	}
	changes := Diff(worlds[0].maps, worlds[1].maps)
	for _, c := range changes {
		worlds[0].maps.Apply(c)
		for _, problem := range astray(worlds[0].maps) {
			t.Errorf("after %s: %s", c, problem)
		}
	}
	expect(t, render(changes), `
			places delete 1001 0a:58:c0:a8:00:02
			places delete 1001 0a:58:c0:a8:00:03
			ports set 7 -> 1001 0a:58:c0:a8:00:03 192.168.0.3
			ports set 8 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 8 192.168.0.2
			places set 1001 0a:58:c0:a8:00:03 -> port 7 192.168.0.3`)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.ReplaceAll(want, "\t", ""); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
