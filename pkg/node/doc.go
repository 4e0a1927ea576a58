// Package node decides what a Node says of its data plane: whether pod2-agent
// has its kernel as the Networks of the cluster want it.
//
//	agent pods on node-1                 condition samplecrd.k8s.io/DataPlaneReady of node-1
//
//	none, none yet                       none
//	agent-x4k2p, starting                False AgentNotReady
//	agent-x4k2p, Ready                   True AgentReady
//	agent-x4k2p, being deleted           False AgentNotReady
//	none, for a moment of an update      False AgentNotReady, left as it is
//	agent-9w7fd, Ready                   True AgentReady
//	none, ten seconds later still        none
//
// The agent itself writes nothing to the API server, so that who takes over a node has no
// right to change anything there: the controller tells what the kubelet says of its pod,
// whose readiness probe is true while the kernel has all that is wanted.
package node
