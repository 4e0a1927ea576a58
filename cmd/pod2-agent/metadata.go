//go:build linux

package main

import "net/netip"

// metadata are the link-local addresses of IPv4 and the addresses at which clouds hand a node
// its credentials. Packets that leave a Network have the node's address, so without a rule a
// pod would get them too.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),         // most clouds: 169.254.169.254
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure WireServer, which is its DNS server too
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud Classic
	netip.MustParsePrefix("fd00:ec2::254/128"),      // AWS
	netip.MustParsePrefix("fd00:ec2::23/128"),       // AWS, EKS Pod Identity
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai (Linode)
	netip.MustParsePrefix("fd00:100::100:200/128"),  // Alibaba Cloud
}
