//go:build linux

package main

import (
	"sync"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// dropsCollector reads the kernel at each scrape. It has only the pods of this node: some
// hundreds at most.
type dropsCollector struct {
	k8smetrics.BaseStableCollector

	read func() (kernel.Drops, error)

	mu    sync.Mutex
	ports []dataplane.PodPort
}

var (
	droppedPackets = k8smetrics.NewDesc("pod2_agent_dropped_packets_total",
		"Dropped packets, by reason. A pod sent with a MAC (mac), IP (ip), ARP (arp) or neighbour discovery (nd) that is not its own, or with another protocol (protocol). "+
			"The pod of a port was unknown (stranger), which is normal for a moment when a pod starts. A packet of a Network was for a node (node), the API server (api), an address of --deny-cidrs (denied) or another Network (network), came from outside (inbound), or bypassed the router (bridge). "+
			"A host that is not a node sent VXLAN (vxlan).",
		[]string{"reason"}, nil, k8smetrics.ALPHA, "")
	spoofedPackets = k8smetrics.NewDesc("pod2_agent_pod_spoofed_packets_total",
		"Packets that were dropped because a pod of this node sent them with another's address on a Network. They have the reasons mac, ip, arp, nd and protocol in pod2_agent_dropped_packets_total.",
		[]string{"pod_namespace", "pod", "network"}, nil, k8smetrics.ALPHA, "")
)

func (c *dropsCollector) DescribeWithStability(descs chan<- *k8smetrics.Desc) {
	descs <- droppedPackets
	descs <- spoofedPackets
}

// show counts those ports from now on.
func (c *dropsCollector) show(ports []dataplane.PodPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = ports
}

func (c *dropsCollector) CollectWithStability(metrics chan<- k8smetrics.Metric) {
	drops, err := c.read()
	if err != nil {
		return // the next sync reports the error
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
