package reconcile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
)

func TestWhichChangesOfABlockAreWritten(t *testing.T) {
	const a, b, c = "10.1.0.2 a Bound", "10.1.0.3 b Bound", "10.1.0.4 c Bound"
	inherited := func(block *v1.AddressBlock) *v1.AddressBlock {
		metav1.SetMetaDataAnnotation(&block.ObjectMeta, v1.InheritedAnnotation, "now")
		return block
	}
	bare := newBlock("blue")
	bare.Finalizers, bare.OwnerReferences, bare.Spec.Sealed = nil, nil, true
	for _, row := range []struct {
		name         string
		seen, wanted *v1.AddressBlock
		want         string
	}{
		{"nothing", newBlock("blue", a), newBlock("blue", a), ""},
		{"the first entries", newBlock("blue"), newBlock("blue", a, b), "add /spec/entries"},
		{"no entries left", newBlock("blue", a, b), newBlock("blue"), "add /spec/entries"},
		{"an entry more", newBlock("blue", a, c), newBlock("blue", a, b, c), "add /spec/entries/1"},
		{"an entry at the end", newBlock("blue", a), newBlock("blue", a, b), "add /spec/entries/1"},
		{"an entry less", newBlock("blue", a, b, c), newBlock("blue", b, c), "remove /spec/entries/0"},
		{"another holder", newBlock("blue", a, b), newBlock("blue", a, "10.1.0.3 x Bound"), "replace /spec/entries/1"},
		{"two changes", newBlock("blue", a, b), newBlock("blue", "10.1.0.2 a Reserved", c), "replace /spec/entries/0, remove /spec/entries/1, add /spec/entries/1"},
		{"sealed", newBlock("blue"), bare, "remove /metadata/finalizers, remove /metadata/ownerReferences, add /spec/sealed"},
		{"inherited", newBlock("blue"), inherited(newBlock("blue")), "add /metadata/annotations"},
		{"no longer inherited", inherited(newBlock("blue")), newBlock("blue"), "remove /metadata/annotations/samplecrd.k8s.io~1inherited"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var changes []string
			for _, o := range blockChanges(row.seen, row.wanted) {
				changes = append(changes, o.Op+" "+o.Path)
			}
			same(t, strings.Join(changes, ", "), row.want)
		})
	}
}

// The operations make any list another one. Entries that do not change keep unknown fields.
func TestChangesOfEntriesMakeTheWantedOnes(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		edited := false
		arbitrary := func() *v1.AddressBlock {
			var entries []string
			for range dice.IntN(8) {
				entries = append(entries, fmt.Sprintf("10.1.0.%d %s Bound", dice.IntN(8), chance.Pick(dice, "a", "b")))
			}
			if chance.One(dice, 8) {
				edited = true
			} else { // as the controller writes them
				slices.Sort(entries)
				entries = slices.CompactFunc(entries, func(a, b string) bool { return strings.Fields(a)[0] == strings.Fields(b)[0] })
			}
			return newBlock("blue", entries...)
		}
		seen, wanted := arbitrary(), arbitrary()
		fields := decodedJSON(&world{t: t}, mustJSON(t, seen))
		fields["spec"].(map[string]any)["entries"] = withUnknown(t, seen.Spec.Entries)
		patch, err := jsonpatch.DecodePatch(mustJSON(t, blockChanges(seen, wanted)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := patch.Apply(mustJSON(t, fields))
		if err != nil {
			t.Fatalf("from %v to %v: %v", seen.Spec.Entries, wanted.Spec.Entries, err)
		}
		var got v1.AddressBlock
		if err := json.Unmarshal(text, &got); err != nil || !equality.Semantic.DeepEqual(got.Spec.Entries, wanted.Spec.Entries) {
			t.Errorf("from %v to %v: got %v, %v", seen.Spec.Entries, wanted.Spec.Entries, got.Spec.Entries, err)
		}
		common := 0
		for _, entry := range wanted.Spec.Entries {
			if slices.Contains(seen.Spec.Entries, entry) {
				common++
			}
		}
		if kept := strings.Count(string(text), newerField); !edited && kept != common {
			t.Errorf("from %v to %v: %d entries kept a field, want %d", seen.Spec.Entries, wanted.Spec.Entries, kept, common)
		}
	})
}

func withUnknown(t *testing.T, entries []v1.AddressEntry) (all []any) {
	for _, entry := range entries {
		fields := decodedJSON(&world{t: t}, mustJSON(t, entry))
		fields[newerField] = "kept"
		all = append(all, fields)
	}
	return all
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
