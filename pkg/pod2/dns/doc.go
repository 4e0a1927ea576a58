// Package dns decides which DNS names the replicas of a Pod2 have. For each Network of
// the Pod2, there is a headless Service, and EndpointSlices with the addresses that the
// replicas publish there.
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
// The ordinal of a replica alone determines its slice: a change of one pod changes one
// slice per Network. A slice has one address family; the names of IPv6 slices end in -v6.
//
// A replica has its DNS names from the moment it publishes its address until it
// terminates. It does not matter whether it is ready or terminating, because its peers in
// a quorum need it. The same holds on a Network that the spec no longer has. The Service
// of such a Network is deleted with the last replica on it.
//
// Users choose the addresses in a slice, and they can add ports to a Service. Both
// together would let an Ingress forward to any address (the class of CVE-2021-25740). So
// a slice exists only beside a Service that meets all of these:
//   - The Pod2 controls it, by UID.
//   - It has the Pod2's label. Without the label, no event would report a change.
//   - It has no ports.
//   - It is not being deleted, because any user may create the next Service with its name.
//
// The table shows all cases:
//
//	Service                       its slices                 the Service
//	as above                      as replicas publish        stays
//	none                          deleted                    is created
//	terminating                   deleted                    is created after that
//	without owner, label          deleted first              gets them back
//	with ports                    deleted first              loses the ports
//	another owner's               deleted                    is left alone
//
// Slices are created from a view that shows such a Service, and never by the plan that
// creates or changes the Service.
//
// The controller never touches Services and slices of other owners. It adopts a Service
// that has no controller and has the Pod2's labels. It created that Service, and the
// owner reference was removed, by hand or by a deletion with --cascade=orphan. It adopts
// a slice too, if the Pod2 controls its Service by then. Otherwise it deletes the slice,
// even if its Pod2 no longer exists.
package dns
