// Package node decides about the condition of a Node that reports its data plane: whether
// pod2-agent has programmed the node's kernel for the Networks of the cluster.
//
//	agent pods on node-1                 condition samplecrd.k8s.io/DataPlaneReady of node-1
//
//	none, none yet                       none
//	agent-x4k2p, starting                False AgentNotReady
//	agent-x4k2p, Ready                   True AgentReady
//	agent-x4k2p, being deleted           False AgentNotReady
//	none, for a moment of an update      False AgentNotReady, unchanged
//	agent-9w7fd, Ready                   True AgentReady
//	none, also ten seconds later         none
//
// The agent itself writes nothing to the API server, so an attacker who takes over a node
// has no rights to change anything there. The controller reports the readiness of the
// agent's pod, which the kubelet writes. Its readiness probe succeeds while the kernel
// has everything that is wanted.
package node
