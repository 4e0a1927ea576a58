package tables

import (
	"fmt"
	"testing"
)

// The ports of the pods of this node, with the routes that they need after their Networks have grown.
func TestPort(t *testing.T) {
	const grown = "network blue 1001 192.168.0.0/28"
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a pod that has a smaller prefix", []string{grown, "pod a blue=192.168.0.2 bits=29", "port 7 u-a blue"},
			"{7 1001 default/a 192.168.0.2 0a:58:c0:a8:00:02 192.168.0.0/28 } true"},
		{"a pod that has the whole prefix", []string{grown, "pod a blue=192.168.0.9 bits=28", "port 7 u-a blue"},
			"{7 1001 default/a 192.168.0.9 0a:58:c0:a8:00:09 invalid Prefix } true"},
		{"a Network that grows later", []string{"network blue 1001 192.168.0.0/29", "pod a blue=192.168.0.2 bits=29", "port 7 u-a blue", grown},
			"{7 1001 default/a 192.168.0.2 0a:58:c0:a8:00:02 192.168.0.0/28 } true"},
		{"a pod of an earlier Network with this name", []string{grown, "pod a blue=10.0.0.2 bits=29", "port 7 u-a blue"}, "{0 0  invalid IP 00:00:00:00:00:00 invalid Prefix } false"},
		{"a Network that is unknown", []string{grown, "pod a green=192.168.0.2 bits=29", "port 7 u-a green"}, "{0 0  invalid IP 00:00:00:00:00:00 invalid Prefix } false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			for _, line := range tt.lines {
				w.event(t, line)
			}
			port, open := w.desired.Port(7)
			expect(t, fmt.Sprint(port, open), tt.want)
		})
	}
}

// Of two Networks with one VNI, only the first by name is on this node.
func TestNetworksHere(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"network blue 1001 fd00::/64", "network alt 1001 10.1.0.0/16", "network green 1000 192.168.0.0/24",
		"pod a blue=fd00::2 alt=10.1.0.2 green=192.168.0.2"} {
		w.event(t, line)
	}
	var names []string
	for _, n := range w.desired.Networks() {
		names = append(names, n.Name)
	}
	expect(t, fmt.Sprint(names), "[green alt]")
}
