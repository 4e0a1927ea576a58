package sim

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// ends adds the tenures that a write to an AddressBlock ends. An AddressBlock is removed without
// entries.
func (p *Promises) ends(was, is *v1.AddressBlock) {
	if was != nil {
		p.ended[was.Spec.NetworkUID] = append(p.ended[was.Spec.NetworkUID], spec.Ended(was, is, time.Now())...)
	}
}

// trust takes the records from before the monitor began as true.
func (p *Promises) trust(c Change, h *v1.AddressHistory) {
	owner := metav1.GetControllerOf(h)
	if c.Old != c.New || owner == nil {
		return
	}
	for _, r := range h.Spec.Records {
		if !r.Gap {
			p.ended[owner.UID] = append(p.ended[owner.UID], spec.Tenure{Address: r.Address, Pod: r.Pod, UID: r.PodUID, Until: r.Until.Time})
		}
	}
}

// Forgotten describes a record that the AddressHistories lack, or a wrong one; "" for none.
func (p *Promises) Forgotten(s *Cluster) string {
	s.Lock()
	defer s.Unlock()
	c := &spec.Cluster{Now: time.Now(), Histories: apiserver.List[*v1.AddressHistory](s.Server, "addresshistories")}
	for _, n := range apiserver.List[*v1.Network](s.Server, "networks") {
		if n.DeletionTimestamp != nil {
			continue
		}
		if why := spec.HistoryDone(c, n, p.ended[n.UID]); why != "" {
			return fmt.Sprintf("the history of Network %s: %s", apiserver.NameOf(n), why)
		}
	}
	return ""
}
