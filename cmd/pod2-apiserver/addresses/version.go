package addresses

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Sources of an Address, in the order of their parts in a version.
type source int

const (
	blocks source = iota
	pods
	networks
	sources
)

func (s source) String() string { return [sources]string{"AddressBlocks", "pods", "Networks"}[s] }

// version is a resourceVersion of Addresses. It has one part for each source: the
// resourceVersion of the newest change of this source that it includes.
//
// The highest one of the three would not do. Each source has a watch of its own, and the
// watches are not in step. Suppose that a replica has seen an AddressBlock of version 100,
// but not yet a pod of version 95. A client that got 100 from this replica, and watches
// another one from there, would never see the change of the pod.
//
// Several Addresses can change with one version of a source. Only the last of these events
// completes the part: a part is 2*resourceVersion+1 if it is complete, 2*resourceVersion
// if not. A client that continues at an incomplete part gets all these events again.
//
// In text, a version is one decimal number. Later parts have a fixed width. So it increases
// along the events of a watch, also if the client began at the other replica: see join. Clients
// may compare versions as those of any resource, with any number of digits, as
// k8s.io/apimachinery/pkg/util/resourceversion does.
type version [sources]uint64

const width = 18

func (v version) String() string {
	return fmt.Sprintf("%d%0*d%0*d", v[blocks], width, v[pods], width, v[networks])
}

func parseVersion(s string) (v version, err error) {
	if _, ok := new(big.Int).SetString(s, 10); !ok || strings.HasPrefix(s, "-") || len(s) <= 2*width || len(s) > 3*width {
		return v, fmt.Errorf("resourceVersion %q is not one of Addresses: list them to get one", s)
	}
	for at := sources - 1; at >= 0; at-- {
		first := max(0, len(s)-width)
		if v[at], err = strconv.ParseUint(s[first:], 10, 64); err != nil {
			return v, fmt.Errorf("read part %q of resourceVersion %q: %w", s[first:], s, err)
		}
		s = s[:first]
	}
	return v, nil
}

// complete and incomplete are the parts for a resourceVersion.
func complete(resourceVersion uint64) uint64   { return 2*resourceVersion + 1 }
func incomplete(resourceVersion uint64) uint64 { return 2 * resourceVersion }

// whole replaces incomplete parts by the complete ones before them.
func (v version) whole() version {
	for s := range v {
		if v[s]%2 == 0 && v[s] > 0 {
			v[s]--
		}
	}
	return v
}

// begun is not an earlier version than this one, and no part is complete that is not complete in
// this one. So a client that continues there gets the same events.
func (v version) begun() version {
	if v[networks]%2 == 1 {
		v[networks]++
	}
	return v
}

// max has the larger parts of both.
func (v version) max(other version) version {
	for s, part := range other {
		if part > v[s] {
			v[s] = part
		}
	}
	return v
}

// includes says whether a version has all changes of another one.
func (v version) includes(other version) bool { return v.max(other) == v }

// behind returns the first source of which a version lacks changes that another includes, or
// "".
func (v version) behind(other version) string {
	for s, part := range other.whole() {
		if v[s] < part {
			return source(s).String()
		}
	}
	return ""
}
