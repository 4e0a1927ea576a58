// Package view decides how the dashboard shows each object: as a few records, each with a
// key. The page puts them together.
//
//	AddressBlock default/blue-0            addresses/default/blue/10.0.0.2   {"state":"Bound","pod":"web-0",...}
//	                                       addresses/default/blue/10.0.0.3   {"state":"Resting",...}
//	Pod default/web-0                      pods/default/web-0                {"node":"n1","ready":true,...}
//
// A record has only the fields that the page shows, so 10,000 pods take a few megabytes. It has no value
// of a Secret, a ConfigMap, a variable or a volume.
package view
