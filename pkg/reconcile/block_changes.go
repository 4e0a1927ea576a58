package reconcile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
)

// blockChanges returns the operations that make the observed AddressBlock the wanted one. They
// name only the entries that change. So the others keep fields that our types do not know, and
// the API server need not merge 256 entries.
func blockChanges(seen, wanted *v1.AddressBlock) []fenced.Operation {
	changes := listChange("/metadata/finalizers", seen.Finalizers, wanted.Finalizers)
	changes = append(changes, listChange("/metadata/ownerReferences", seen.OwnerReferences, wanted.OwnerReferences)...)
	changes = append(changes, inheritedChange(seen, wanted)...)
	if seen.Spec.NetworkUID != wanted.Spec.NetworkUID {
		changes = append(changes, fenced.Operation{Op: "add", Path: "/spec/networkUID", Value: wanted.Spec.NetworkUID})
	}
	if seen.Spec.Sealed != wanted.Spec.Sealed {
		changes = append(changes, fenced.Operation{Op: "add", Path: "/spec/sealed", Value: wanted.Spec.Sealed})
	}
	return append(changes, entryChanges(seen.Spec.Entries, wanted.Spec.Entries)...)
}

func listChange[T any](path string, seen, wanted []T) []fenced.Operation {
	switch {
	case equality.Semantic.DeepEqual(seen, wanted):
		return nil
	case len(wanted) == 0:
		return []fenced.Operation{{Op: "remove", Path: path}}
	}
	return []fenced.Operation{{Op: "add", Path: path, Value: wanted}}
}

func inheritedChange(seen, wanted *v1.AddressBlock) (changes []fenced.Operation) {
	was, had := seen.Annotations[v1.InheritedAnnotation]
	is, has := wanted.Annotations[v1.InheritedAnnotation]
	switch {
	case had && !has:
		return []fenced.Operation{fenced.Unannotate(v1.InheritedAnnotation)}
	case has && !had && len(seen.Annotations) == 0:
		return []fenced.Operation{{Op: "add", Path: "/metadata/annotations", Value: map[string]string{v1.InheritedAnnotation: is}}}
	case was != is:
		return []fenced.Operation{fenced.Annotate(v1.InheritedAnnotation, is)}
	}
	return nil
}

// entryChanges makes each operation at the first place where the lists still differ. Both are in
// the order of the addresses, unless a user edited the AddressBlock. Then entries may be replaced
// that only moved.
func entryChanges(seen, wanted []v1.AddressEntry) (changes []fenced.Operation) {
	if (len(seen) == 0) != (len(wanted) == 0) {
		return []fenced.Operation{{Op: "add", Path: "/spec/entries", Value: wanted}}
	}
	held, wants := addressesOf(seen), addressesOf(wanted)
	at := 0 // the entries before are as wanted
	change := func(op string, value any) {
		changes = append(changes, fenced.Operation{Op: op, Path: fmt.Sprintf("/spec/entries/%d", at), Value: value})
	}
	for len(seen) > 0 || at < len(wanted) {
		switch {
		case at == len(wanted) || len(seen) > 0 && !wants[seen[0].Address]:
			change("remove", nil)
			seen = seen[1:]
			continue
		case len(seen) == 0 || !held[wanted[at].Address]:
			change("add", wanted[at])
		default:
			if !sameEntry(seen[0], wanted[at]) {
				change("replace", wanted[at])
			}
			seen = seen[1:]
		}
		at++
	}
	return changes
}

func addressesOf(entries []v1.AddressEntry) map[string]bool {
	addresses := make(map[string]bool, len(entries))
	for i := range entries {
		addresses[entries[i].Address] = true
	}
	return addresses
}

func sameEntry(a, b v1.AddressEntry) bool {
	since := a.Since.Equal(&b.Since)
	a.Since, b.Since = metav1.Time{}, metav1.Time{}
	return since && a == b
}
