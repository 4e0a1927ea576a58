//go:build linux

package node

import (
	"strings"

	"github.com/pod2/pod2/pkg/agent/bpf"
)

// Drop counts the packets of one Network, and of one pod if it sent them, that were dropped.
type Drop struct {
	Reason string
	// Namespace and Network are empty if the packet's Network was not known.
	Namespace, Network string
	// Pod is the name of the pod of this node that sent the packet; "" if it came from elsewhere.
	Pod string
}

// Drops since the agent started, and those that the maps had then.
func (n *Node) Drops() (map[Drop]uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts, err := n.programs.Drops()
	if err != nil {
		return nil, err
	}
	for d, count := range n.past {
		counts[d] += count
	}
	drops := map[Drop]uint64{}
	for d, count := range counts {
		key := Drop{Reason: d.Reason, Namespace: n.names[d.VNI].namespace, Network: n.names[d.VNI].name}
		if _, ours := n.ports[d.Interface]; ours {
			if p, open := n.desired.Port(d.Interface); open {
				_, key.Pod, _ = strings.Cut(p.Pod, "/")
			}
		}
		drops[key] += count
	}
	return drops, nil
}

// forgetDrops of interfaces that are gone: the map has room for a limited number. Their counts stay in the
// sums of their Networks.
func (n *Node) forgetDrops() error {
	counts, err := n.programs.Drops()
	if err != nil {
		return err
	}
	for d, count := range counts {
		_, port := n.ports[d.Interface]
		if port || d.Interface == bpf.Loopback || n.attached[d.Interface] || d.Interface == n.config.VXLAN || d.Interface == n.config.Gateway || d.Interface == n.peer {
			continue
		}
		if err := n.programs.DeleteDrop(d); err != nil {
			return err
		}
		d.Interface = 0
		n.past[d] += count
	}
	return nil
}
