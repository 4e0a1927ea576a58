package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// cluster with 60 replicas on 10 nodes.
func cluster() (kube, sample []runtime.Object) {
	var entries []v1.AddressEntry
	for i := range 60 {
		kube = append(kube, pod(i, fmt.Sprint("node-", i%10), i != 59))
		entries = append(entries, bound(i))
	}
	for i := range 10 {
		kube = append(kube, node(fmt.Sprint("node-", i)))
	}
	entries = append(entries, v1.AddressEntry{Address: "10.0.0.100", Pod: "db-0", State: v1.AddressReserved, Since: ago, Owner: v1.AddressOwner{Kind: "StatefulSet", Name: "db"}},
		v1.AddressEntry{Address: "10.0.0.101", Pod: "job-x", State: v1.AddressResting, Since: metav1.Now()})
	return kube, append(sample, network("blue", "10.0.0.0/24", 253, 60, 1, 1), network("large", "10.1.0.0/16", 65533, 0, 0, 0), block("blue-0", "blue", "10.0.0.0/24", entries...), web(60))
}

// Each view shows its objects. It also draws the pictures of docs/how-to/dashboard.md.
func TestPictures(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 1000, 700, kube, sample)
	l.open("networks")
	l.shows("default/blue")
	l.do(chromedp.Navigate("about:blank"))
	l.open("networks/default/blue/10.0.0.5")
	l.shows("0a:58:0a:00:00:05")
	l.picture("dashboard-network")
	l.open("pod2s")
	l.shows("default/web")
	l.open("pod2s/default/web")
	l.shows("create pod web-2")
	l.shows("Revision 2 (update)")
	l.open("topology/default/blue")
	l.shows("60 pods on 10 of 10 nodes")
	l.picture("dashboard-topology")
}

// The ordinals of a Pod2 may begin after 0 and have gaps.
func TestPlacesOfReplicas(t *testing.T) {
	p := web(3)
	p.Spec.Ordinals, p.Spec.ReserveOrdinals = &v1.Pod2Ordinals{Start: 5}, []int32{6}
	p.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{Partition: 1}
	var kube []runtime.Object
	for _, ordinal := range []int{5, 7, 8, 9} {
		kube = append(kube, pod(ordinal, "n1", true))
	}
	l := newLab(t, 1000, 700, kube, []runtime.Object{p})
	l.open("pod2s/default/web")
	l.shows("web-9")
	var got string
	l.do(chromedp.Evaluate(`[...document.querySelectorAll('.replicas li')].map((li) => li.textContent.trim().split(/\s+/).slice(0, 4).join(' ')).join('; ')`, &got))
	if want := "web-5 before the partition; web-7 Ready, updated, n1; web-8 Ready, updated, n1; web-9 surge, or scaled"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An address whose records may be lost looks different from one that no pod had.
func TestGapOfAFreeAddress(t *testing.T) {
	kube, sample := cluster()
	h := &v1.AddressHistory{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-0", Labels: map[string]string{v1.NetworkLabel: "blue"}}}
	h.Spec.Records = []v1.AddressRecord{{Gap: true, From: &ago, Until: metav1.Now()}}
	l := newLab(t, 1000, 700, kube, append(sample, h))
	l.open("networks/default/blue/10.0.0.200")
	l.shows("gap: records may be missing")
}

// An address shows the node of the pod that holds it, and not of a pod that has the same name.
func TestNodeOfAnAddress(t *testing.T) {
	of := func(address, uid string, state v1.AddressState) v1.AddressEntry {
		return v1.AddressEntry{Address: address, Pod: "web-0", PodUID: types.UID(uid), State: state, Since: ago}
	}
	entries := []v1.AddressEntry{of("10.0.0.10", "uid-0", v1.AddressBound), of("10.0.0.11", "uid-old", v1.AddressBound), of("10.0.0.12", "", v1.AddressReserved), of("10.0.0.13", "uid-0", v1.AddressResting)}
	l := newLab(t, 1000, 700, []runtime.Object{pod(0, "node-7", true)}, []runtime.Object{network("blue", "10.0.0.0/24", 253, 2, 1, 1), block("blue-0", "blue", "10.0.0.0/24", entries...)})
	l.open("search/web-0")
	l.shows("10.0.0.13")
	var got string
	l.do(chromedp.Evaluate(`[...document.querySelectorAll('tbody tr')].map((tr) => tr.cells[0].textContent + ' ' + (tr.cells[4]?.textContent || '-')).join('; ')`, &got))
	if want := "10.0.0.10 node-7; 10.0.0.11 -; 10.0.0.12 -; 10.0.0.13 -"; got != want {
		t.Errorf("search: got %s, want %s", got, want)
	}
	for address, want := range map[string]string{"10.0.0.10": "node-7", "10.0.0.11": "none", "10.0.0.12": "none", "10.0.0.13": "none"} {
		l.visit("networks/default/blue/" + address)
		l.shows(address)
		l.do(chromedp.Evaluate(`[...document.querySelectorAll('#cell dt')].find((dt) => dt.textContent === 'Node')?.nextElementSibling.textContent`, &got))
		if got != want {
			t.Errorf("details of %s: the node is %s, want %s", address, got, want)
		}
	}
	l.visit("topology/default/blue")
	l.shows("1 pods on 1 of 1 nodes")
}
