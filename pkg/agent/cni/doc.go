// Package cni is the protocol between the CNI plugin pod2-cni and pod2-agent, over a unix socket.
//
// A connection carries one request and one response. Each is one line of JSON of at most 64 KiB:
//
//	{"version":1,"command":"ADD","containerID":"5b0c","interface":"net1","network":"default.blue",
//	 "pod":{"namespace":"default","name":"web-0","uid":"8f31"},"ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}
//	{"version":1,"result":{"hostInterface":"pod25f0c11a2b3c","mac":"0a:58:c0:a8:00:02","mtu":1450,"address":"192.168.0.2/16"}}
//
// ADD and CHECK pass a descriptor of the pod's network namespace with the request. The client keeps
// the connection open until it has the response; if it closes earlier, the agent cancels the request.
//
// A later version of the plugin or the agent may add fields: both sides ignore fields that they do
// not know. The number changes only if an old reader would misread a message.
//
// A request never says where packets go. The agent knows the VNI and checks everything else.
package cni
