// Package endpoints decides which names in DNS the replicas of a Pod2 have: for
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
// Services and slices of somebody else are never touched. Those without a controller
// that have our labels are adopted: we made them, and their owner reference was
// removed, by hand or by a deletion with --cascade=orphan.
package endpoints
