//go:build linux

package main

import (
	"slices"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/pkg/agent/node"
)

// dropsCollector reads the kernel at each scrape.
type dropsCollector struct {
	k8smetrics.BaseStableCollector

	// programs are the drops of the data plane's programs, rules those of the node's filter.
	programs func() (map[node.Drop]uint64, error)
	rules    func() (map[string]uint64, error)
}

var (
	droppedPackets = k8smetrics.NewDesc("pod2_agent_dropped_packets_total",
		"Dropped packets, by reason and Network. A pod sent with a MAC (mac), IP (ip), ARP (arp) or neighbour discovery (nd) that is not its own, or with another protocol (protocol) or a header that could hide one (extension). "+
			"A packet was shorter than its headers (truncated), larger than the MTU (oversized), for a group or for everybody (multicast), which includes normal announcements of pods, or for an address that nobody has (unknown). "+
			"Its port was not programmed (stranger). The node itself sent it to a pod or as VXLAN (injected). The kernel could not rewrite it (failed). The Network has egress None (egress). A host that is not a node sent VXLAN (vxlan). "+
			"A packet of a Network was for a node (node), the API server (api), an address of --deny-cidrs (denied) or another Network (network), or conntrack could not follow it (invalid), or it came from outside or the node (inbound); those and some of vxlan and stranger have no Network.",
		[]string{"reason", "network_namespace", "network"}, nil, k8smetrics.ALPHA, "")
	spoofedPackets = k8smetrics.NewDesc("pod2_agent_pod_spoofed_packets_total",
		"Packets that were dropped because a pod of this node sent them with another's address on a Network. They have the reasons mac, ip, arp, nd, protocol and extension in pod2_agent_dropped_packets_total.",
		[]string{"pod_namespace", "pod_name", "network"}, nil, k8smetrics.ALPHA, "")
)

// spoofing are the reasons that count against a pod.
var spoofing = []string{"mac", "ip", "arp", "nd", "protocol", "extension"}

func (c *dropsCollector) DescribeWithStability(descs chan<- *k8smetrics.Desc) {
	descs <- droppedPackets
	descs <- spoofedPackets
}

func (c *dropsCollector) CollectWithStability(metrics chan<- k8smetrics.Metric) {
	drops, err := c.programs()
	if err != nil {
		return // the next sync reports the error
	}
	rules, err := c.rules()
	if err != nil {
		return
	}
	dropped, spoofed := map[node.Drop]uint64{}, map[node.Drop]uint64{}
	for reason, count := range rules {
		dropped[node.Drop{Reason: reason}] += count
	}
	for d, count := range drops {
		if d.Pod != "" && slices.Contains(spoofing, d.Reason) {
			spoofed[node.Drop{Namespace: d.Namespace, Network: d.Network, Pod: d.Pod}] += count
		}
		d.Pod = ""
		dropped[d] += count
	}
	for d, count := range dropped {
		metrics <- k8smetrics.NewLazyConstMetric(droppedPackets, k8smetrics.CounterValue, float64(count), d.Reason, d.Namespace, d.Network)
	}
	for d, count := range spoofed {
		metrics <- k8smetrics.NewLazyConstMetric(spoofedPackets, k8smetrics.CounterValue, float64(count), d.Namespace, d.Pod, d.Network)
	}
}
