package dataplane

import (
	"fmt"
	"strings"
	"testing"
)

// The routes that pods need after their Network grew.
func TestPodRoutes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a pod that has a smaller prefix", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 192.168.0.2/29"},
			`default/a 7 net1 0a:58:c0:a8:00:02 192.168.0.2: 192.168.0.0/28`},
		{"the same, of IPv6", []string{"network blue 1001 fd00::/124", "port 7 1001 a fd00::2/125"},
			`default/a 7 net1 0a:58:00:00:00:02 fd00::2: fd00::/124`},
		{"a Network that grew to below", []string{"network blue 1001 192.168.0.0/28 gateway=192.168.0.9", "port 7 1001 a 192.168.0.10/29"},
			`default/a 7 net1 0a:58:c0:a8:00:0a 192.168.0.10: 192.168.0.0/28`},
		{"a pod that has the whole prefix", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 192.168.0.9/28"}, ``},
		{"a pod of an earlier Network with this name", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 10.0.0.2/29"}, ``},
		{"a Network that is unknown", []string{"network blue 1001 192.168.0.0/28", "port 7 1002 a 192.168.0.2/29"}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, r, _ := Want(state(t, append([]string{"node n1 10.0.0.1"}, tt.lines...)...))
			var lines []string
			for _, r := range r.PodRoutes {
				lines = append(lines, fmt.Sprintf("%s %d %s %s %s: %s", r.Pod, r.Interface, r.Inner, r.MAC, r.IP, r.Dst))
			}
			expect(t, strings.Join(lines, "\n"), tt.want)
		})
	}
}
