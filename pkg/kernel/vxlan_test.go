//go:build linux && kernel

package kernel

import (
	"os"
	"strings"
	"testing"
)

// Conntrack of a node does not follow VXLAN: each connection of pods would be one there,
// from a port of its own.
func TestVXLANIsNotTracked(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	blue[0].reaches(blue[1].ip, "blue2")
	for _, n := range c.nodes {
		var tracked []byte
		var err error
		c.in(n.name, func() { tracked, err = os.ReadFile("/proc/thread-self/net/nf_conntrack") })
		must(t, err)
		if strings.Contains(string(tracked), "dport=4789") {
			t.Errorf("%s tracks\n%s", n.name, tracked)
		}
	}
}
