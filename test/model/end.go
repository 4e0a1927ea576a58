package model

import (
	"fmt"

	"github.com/pod2/pod2/test/spec"
)

// checkEnd reports the faults of a state after the last transition.
func (m *machine) checkEnd(s *state) {
	c := m.cluster(s)
	if m.config.Numbered {
		m.checkHistory(s)
		return
	}
	for _, key := range m.config.Keys {
		if why := done(c, key); why != "" {
			m.complain(fmt.Sprintf("L1: %s is not done: %s", key, why))
		}
	}
	m.complain(c.Leaks())
	m.complain(c.Unrecorded())
	for _, pod := range c.Pods {
		if c.WaitsInVain(pod) {
			m.complain(fmt.Sprintf("L1: pod %s waits, although its Networks have free addresses", pod.Name))
		}
	}
	for _, p := range c.Pod2s {
		m.complain(c.Whole(p, m.config.Ready))
	}
	if m.config.End != nil {
		m.complain(m.config.End(&World{m, s}))
	}
}

func done(c *spec.Cluster, key Key) string {
	if key.Kind == "Network" {
		return spec.NetworkDone(c, key.Name)
	}
	for _, p := range c.Pod2s {
		if key.Kind == "Pod2" && p.Name == key.Name {
			return spec.Pod2Done(c, p)
		}
	}
	return ""
}
