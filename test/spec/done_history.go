package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Tenure is a pod's possession of an address that has ended.
type Tenure struct {
	Address string
	Pod     string
	UID     types.UID
	Until   time.Time
}

// HistoryDone describes the remaining work for the AddressHistories of a Network, or a wrong
// record. The tenures are all that ended, in the order of their ends.
//
//   - Each tenure has one record, unless a gap says that it may be missing, or it ended before
//     the history begins. The record may lack the UID if only its end was seen.
//   - Each record is about a tenure.
//   - There are no more records than the limit, and no record of an age above the bound.
func HistoryDone(c *Cluster, n *v1.Network, tenures []Tenure) string {
	return cmp.Or(HistoryTrue(c, n, tenures), historyComplete(histories(c, n), tenures))
}

// historyComplete describes a tenure without a record and without a gap.
func historyComplete(own []*v1.AddressHistory, tenures []Tenure) string {
	told := map[Tenure]bool{}
	for _, h := range own {
		for _, r := range h.Spec.Records {
			key := Tenure{Address: r.Address, Pod: r.Pod, UID: r.PodUID}
			if r.PodUID == "" {
				key.Until = r.Until.UTC()
			}
			told[key] = true
		}
	}
	for _, t := range tenures {
		if !told[Tenure{Address: t.Address, Pod: t.Pod, UID: t.UID}] && !told[Tenure{t.Address, t.Pod, "", t.Until.UTC().Truncate(time.Second)}] && !missing(own, t.Until) {
			return fmt.Sprintf("no record says that %s held %s until %s, and no gap is there", t.Pod, t.Address, t.Until.UTC().Format(time.TimeOnly))
		}
	}
	return ""
}

// HistoryTrue describes a wrong record of the AddressHistories of a Network, or that there are too
// many. Two controllers at once keep this, too.
func HistoryTrue(c *Cluster, n *v1.Network, tenures []Tenure) string {
	own := histories(c, n)
	limit, age := 1000, 30*24*time.Hour
	if b := n.Spec.AddressHistory; b != nil {
		if b.Limit != nil {
			limit = int(*b.Limit)
		}
		if b.MaxAgeSeconds != nil {
			age = time.Duration(*b.MaxAgeSeconds) * time.Second
		}
	}
	count, told := 0, map[Tenure]int{}
	for _, h := range own {
		count += len(h.Spec.Records)
		if len(h.Spec.Records) > 256 {
			return fmt.Sprintf("AddressHistory %s has %d records", h.Name, len(h.Spec.Records))
		}
		for _, r := range h.Spec.Records {
			if r.Gap {
				continue
			}
			if c.Now.Sub(r.Until.Time) > age+age/4+time.Minute {
				return fmt.Sprintf("AddressHistory %s has a record of %s: it is too old", h.Name, r.Until)
			}
			if r.PodUID != "" { // otherwise only its end was seen
				told[Tenure{Address: r.Address, Pod: r.Pod, UID: r.PodUID}]++
			}
		}
	}
	if count > limit {
		return fmt.Sprintf("%d records, the limit is %d", count, limit)
	}
	for _, t := range tenures {
		key := Tenure{Address: t.Address, Pod: t.Pod, UID: t.UID}
		if told[key] > 1 {
			return fmt.Sprintf("%d records say that %s held %s", told[key], t.Pod, t.Address)
		}
		delete(told, key)
	}
	for t := range told {
		return fmt.Sprintf("a record says that %s (%s) held %s: it did not, or still does", t.Pod, t.UID, t.Address)
	}
	return ""
}

// HistoryRepeats describes a tenure that has two records, "" for none. No two tenures of pods with
// one name may end in the same second.
func HistoryRepeats(c *Cluster, n *v1.Network) string {
	told := map[Tenure]types.UID{}
	for _, h := range histories(c, n) {
		for _, r := range h.Spec.Records {
			key := Tenure{Address: r.Address, Pod: r.Pod, Until: r.Until.UTC()}
			if uid, twice := told[key]; twice && !r.Gap && (uid == r.PodUID || uid == "" || r.PodUID == "") {
				return fmt.Sprintf("two records say that %s held %s until %s", r.Pod, r.Address, r.Until.UTC().Format(time.TimeOnly))
			}
			told[key] = r.PodUID
		}
	}
	return ""
}

// missing says whether the AddressHistories say that records of this time may be missing.
// Times of the API have no fractions of a second.
func missing(own []*v1.AddressHistory, at time.Time) bool {
	at = at.Truncate(time.Second)
	if len(own) == 0 || !at.After(own[0].Spec.Since.Time) {
		return true
	}
	for i, h := range own {
		if i > 0 && numberOf(h) != numberOf(own[i-1])+1 && !at.Before(own[i-1].Spec.Through.Time) && !at.After(h.Spec.Since.Time) {
			return true
		}
		for _, r := range h.Spec.Records {
			if r.Gap && !at.Before(r.From.Time) && !at.After(r.Until.Time) {
				return true
			}
		}
	}
	return false
}

// histories are those of a Network, the oldest first.
func histories(c *Cluster, n *v1.Network) []*v1.AddressHistory {
	var own []*v1.AddressHistory
	for _, h := range c.Histories {
		if metav1.IsControlledBy(h, n) {
			own = append(own, h)
		}
	}
	slices.SortFunc(own, func(a, b *v1.AddressHistory) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	return own
}

func numberOf(h *v1.AddressHistory) int {
	i, _ := strconv.Atoi(h.Name[strings.LastIndex(h.Name, "-")+1:])
	return i
}

// Ended returns the tenures that end between two versions of an AddressBlock. The second is nil
// if it was removed.
func Ended(was, is *v1.AddressBlock, at time.Time) (ended []Tenure) {
	for _, e := range was.Spec.Entries {
		if e.State != v1.AddressBound {
			continue
		}
		t := Tenure{e.Address, e.Pod, e.PodUID, at}
		if is != nil {
			i := slices.IndexFunc(is.Spec.Entries, func(next v1.AddressEntry) bool { return next.Address == e.Address })
			if i >= 0 && is.Spec.Entries[i].PodUID == e.PodUID {
				continue
			}
			if i >= 0 {
				t.Until = is.Spec.Entries[i].Since.Time
			}
		}
		ended = append(ended, t)
	}
	return ended
}
