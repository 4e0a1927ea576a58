// Package dns decides which names in DNS the replicas of a Pod2 have: for
// each of its Networks a headless Service, and EndpointSlices with the addresses
// that the replicas publish there.
//
//	Pod2 web on blue, replica web-0 publishes 192.168.0.2
//
//	Service web-blue            no selector, no cluster IP
//	EndpointSlice web-blue-0    web-0 192.168.0.2, ..., web-99
//	EndpointSlice web-blue-1    web-100, ..., web-199
//
//	web-0.web-blue.default.svc.cluster.local    192.168.0.2
//	web-blue.default.svc.cluster.local          the addresses of all
//
// Which slice a replica is in follows from its ordinal alone: a change of one pod
// changes one slice a Network. A slice has one family; those of IPv6 end in -v6.
//
// A replica has its names from when it publishes its address until it is over or
// gone, ready or not, terminating or not, as its peers in a quorum need; also on a
// Network that the spec has no more, whose Service goes with its last replica.
//
// A slice has addresses that its user chose, and a Service may have ports that its
// user chose. Both together would let an Ingress forward to any address (the class of
// CVE-2021-25740). So a slice exists only beside a Service that the Pod2 controls, by
// UID, that has our label, without which no event would tell of a change, that has no
// ports, and that is not being deleted, since anybody may create the next of its name:
//
//	Service                       its slices                 the Service
//	as above                      as replicas publish        stays
//	none                          deleted                    is created
//	on its way out                deleted                    is created after that
//	without owner, label          deleted first              gets them back
//	with ports                    deleted first              loses the ports
//	somebody else's               deleted                    is left alone
//
// Slices are created on a view that shows such a Service, and never by the plan that
// creates or changes it.
//
// Services and slices of somebody else are never touched. A Service without a
// controller that has our labels is adopted: we made it, and its owner reference was
// removed, by hand or by a deletion with --cascade=orphan. So is a slice, if its
// Service is ours by then; else it is deleted, also when its Pod2 is gone.
package dns
