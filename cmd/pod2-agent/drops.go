//go:build linux

package main

import (
	"sync"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// dropsCollector asks the kernel when it is asked. Of pods it has those of this node:
// some hundreds at most.
type dropsCollector struct {
	k8smetrics.BaseStableCollector

	read func() (kernel.Drops, error)

	mu    sync.Mutex
	ports []dataplane.PodPort
}

var (
	droppedPackets = k8smetrics.NewDesc("pod2_agent_dropped_packets_total",
		"Packets that were dropped, by why: a pod sent with a MAC (mac), IP (ip), ARP (arp) or neighbour discovery (nd) that is not its own, or another protocol (protocol); "+
			"a port is not known (stranger), as is each for a moment when its pod starts, so that some are no attack; a Network's packets were for a node (node), the API server (api), what --deny-cidrs has (denied), another Network (network), or came from outside (inbound), or past the router (bridge); "+
			"somebody who is no node sent VXLAN (vxlan).",
		[]string{"reason"}, nil, k8smetrics.ALPHA, "")
	spoofedPackets = k8smetrics.NewDesc("pod2_agent_pod_spoofed_packets_total",
		"Packets of a pod of this node on a Network that were dropped, since it sent them as somebody else: those of the reasons mac, ip, arp, nd and protocol of pod2_agent_dropped_packets_total.",
		[]string{"pod_namespace", "pod", "network"}, nil, k8smetrics.ALPHA, "")
)

func (c *dropsCollector) DescribeWithStability(descs chan<- *k8smetrics.Desc) {
	descs <- droppedPackets
	descs <- spoofedPackets
}

// show those ports from now on.
func (c *dropsCollector) show(ports []dataplane.PodPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = ports
}

func (c *dropsCollector) CollectWithStability(metrics chan<- k8smetrics.Metric) {
	drops, err := c.read()
	if err != nil {
		return // the next sync says so
	}
	for reason, count := range drops.Reasons {
		metrics <- k8smetrics.NewLazyConstMetric(droppedPackets, k8smetrics.CounterValue, float64(count), reason)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ports {
		if count, ok := drops.Ports[p.Interface]; ok {
			metrics <- k8smetrics.NewLazyConstMetric(spoofedPackets, k8smetrics.CounterValue, float64(count), p.Namespace, p.Pod, p.Network)
		}
	}
}
