package network

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/ordinals"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// parse reads a State, one object a line. The State is about the first Network; the
// others are its neighbours. A time is an age.
//
//	network blue 10.0.0.0/29 gateway=10.0.0.6 exclude=10.0.0.2-10.0.0.3 delay=0 terminating nofinalizer uid=n9 was=10.0.0.1 cni
//	network blue 10.0.0.0/29 new restored age=30s                    never marked, or marked by another UID
//	block 10.0.0.0/24 uid=n0 sealed terminating nofinalizer name=x   of the Network above; entries add missing blocks
//	block 10.0.0.0/24 orphaned age=30s inherited=30s                 from a backup
//	10.0.0.2 Bound web-0/u1 Pod2/web 30s                             in the block that covers it, unless "in=10.0.0.0/24"
//	10.0.0.3 Reserved web-3 Pod2/web 1h release                      with a release request, or one from an hour ago: "release=1h"
//	owner Pod2/web 3 blue,green start=1
//	cluster 10.0.0.0/30 ServiceCIDR kubernetes                       a range that the cluster uses
//	allowed 10.0.0.0/8
//	pod web-1/u2 gated asks=blue,green=10.1.0.5 of=Pod2/web age=1m terminating phase=Failed
//	pod web-0/u1 has=blue:10.0.0.2/29 condition=False/AddressConflict asks=blue hostnetwork
//
// "network blue -" does not exist. "was" is the gateway in the status. "cidrs" are the
// recorded CIDRs; without it, the Network's own CIDR is recorded. "request" is
// spec.onRequest. "cni" is the attachment type.
func parse(t testing.TB, text string) State {
	t.Helper()
	s := State{Now: now, Namespace: "default", Owners: map[v1.AddressOwner]Replicas{}}
	var all []Neighbour
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		last := len(all) - 1
		switch words[0] {
		case "network":
			n := Neighbour{Name: words[1]}
			if words[2] != "-" {
				n.Network = parseNetwork(t, words[1:])
			}
			all = append(all, n)
		case "block":
			all[last].Blocks = append(all[last].Blocks, parseBlock(t, all[last], words[1:]))
		case "owner":
			owner, r := parseOwner(words[1]), Replicas{Networks: strings.Split(words[3], ",")}
			var start int32
			var reserved []int32
			for _, word := range words[4:] {
				if value, ok := strings.CutPrefix(word, "reserved="); ok {
					reserved = append(reserved, int32(number(t, value)))
				} else {
					start = int32(number(t, strings.TrimPrefix(word, "start=")))
				}
			}
			r.Ordinals = ordinals.New(start, int32(number(t, words[2])), reserved)
			s.Owners[owner] = r
		case "cluster":
			s.Cluster = append(s.Cluster, ClusterRange{netip.MustParsePrefix(words[1]), strings.Join(words[2:], " ")})
		case "allowed":
			s.AllowedOverlaps = append(s.AllowedOverlaps, netip.MustParsePrefix(words[1]))
		case "pod":
			s.Pods = append(s.Pods, parsePod(t, words[1:]))
		default:
			addEntry(t, &all[last], words)
		}
	}
	for i := range all {
		slices.SortFunc(all[i].Blocks, func(a, b *v1.AddressBlock) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(s.Pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	s.Name, s.Network, s.Blocks, s.Neighbours = all[0].Name, all[0].Network, all[0].Blocks, all[1:]
	return s
}

func parseNetwork(t testing.TB, words []string) *v1.Network {
	n := &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: words[0], UID: types.UID("n-" + words[0]), Generation: 1, Finalizers: []string{v1.InUseFinalizer}},
		Spec:       v1.NetworkSpec{CIDR: words[1]},
		Status:     v1.NetworkStatus{CIDRs: []string{words[1]}},
	}
	mark := func() string { return string(n.UID) }
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "gateway":
			n.Spec.Gateway = value
		case "exclude":
			for e := range strings.SplitSeq(value, ",") {
				n.Spec.Exclude = append(n.Spec.Exclude, v1.AddressRange(e))
			}
		case "delay":
			n.Spec.ReuseDelaySeconds = ptr.To(int32(number(t, value)))
		case "terminating":
			n.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "nofinalizer":
			n.Finalizers = []string{"foregroundDeletion"}
		case "uid":
			n.UID = types.UID(value)
		case "cni":
			n.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI}
		case "new":
			mark = func() string { return "" }
		case "restored":
			mark = func() string { return "n-earlier" }
		case "age":
			n.CreationTimestamp = agoOf(t, value)
		case "request":
			for e := range strings.SplitSeq(value, ",") {
				n.Spec.OnRequest = append(n.Spec.OnRequest, v1.AddressRange(e))
			}
		case "cidrs":
			n.Status.CIDRs = slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" })
		case "was":
			n.Status.Gateway, n.Status.ObservedGeneration = value, 1
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	if uid := mark(); uid != "" {
		n.Annotations = map[string]string{v1.NetworkUIDAnnotation: uid}
	}
	return n
}

func agoOf(t testing.TB, value string) metav1.Time {
	ago, err := time.ParseDuration(value)
	if err != nil {
		t.Fatal(err)
	}
	return metav1.NewTime(now.Add(-ago))
}

func parseBlock(t testing.TB, n Neighbour, words []string) *v1.AddressBlock {
	prefix := netip.MustParsePrefix(words[0])
	b := &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: ipam.BlockName(n.Name, prefix), UID: types.UID("b-" + words[0]), ResourceVersion: "7", Finalizers: []string{v1.InUseFinalizer}},
		Spec:       v1.AddressBlockSpec{Network: n.Name, NetworkUID: types.UID("n-" + n.Name), CIDR: words[0], Entries: []v1.AddressEntry{}},
	}
	owned := true
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "orphaned":
			owned = false
		case "age":
			b.CreationTimestamp = agoOf(t, value)
		case "inherited":
			b.Annotations = map[string]string{v1.InheritedAnnotation: agoOf(t, value).Format(time.RFC3339)}
		case "uid":
			b.Spec.NetworkUID = types.UID(value)
		case "name":
			b.Name = value
		case "sealed":
			b.Spec.Sealed = true
		case "terminating":
			b.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "nofinalizer":
			b.Finalizers = nil
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	if owned {
		b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "samplecrd.k8s.io/v1", Kind: "Network", Name: n.Name, UID: b.Spec.NetworkUID, Controller: ptr.To(true)}}
	}
	return b
}

func addEntry(t testing.TB, n *Neighbour, words []string) {
	e := v1.AddressEntry{Address: words[0], State: v1.AddressState(words[1]), Since: metav1.NewTime(now)}
	name, uid, _ := strings.Cut(words[2], "/")
	e.Pod, e.PodUID = name, types.UID(uid)
	in, release := "", ""
	for _, word := range words[3:] {
		switch ago, err := time.ParseDuration(word); {
		case err == nil:
			e.Since = metav1.NewTime(now.Add(-ago))
		case strings.HasPrefix(word, "in="):
			in = strings.TrimPrefix(word, "in=")
		case strings.HasPrefix(word, "release"):
			release = word
		default:
			e.Owner = parseOwner(word)
		}
	}
	if in == "" {
		in = ipam.Block(netip.MustParseAddr(e.Address)).String()
	}
	i := slices.IndexFunc(n.Blocks, func(b *v1.AddressBlock) bool { return b.Spec.CIDR == in })
	if i < 0 {
		i = len(n.Blocks)
		n.Blocks = append(n.Blocks, parseBlock(t, *n, []string{in}))
	}
	n.Blocks[i].Spec.Entries = append(n.Blocks[i].Spec.Entries, e)
	if release != "" && n.Network != nil {
		if _, ago, earlier := strings.Cut(release, "="); earlier {
			e.Since = agoOf(t, ago)
		}
		var asked []v1.AddressEntry
		_ = json.Unmarshal([]byte(n.Network.Annotations[v1.ReleaseAnnotation]), &asked)
		text, err := json.Marshal(append(asked, e))
		if err != nil {
			t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&n.Network.ObjectMeta, v1.ReleaseAnnotation, string(text))
	}
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// kept returns the lines of a rendered plan that do not begin with one of the words.
func kept(text string, without ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(line, w) }) {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

type planTest struct{ name, in, want string }

// checkPlans compares the writes of plans, without the status and its events.
func checkPlans(t *testing.T, tests []planTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.in)
			plan := Diff(s)
			if got, want := kept(plan.String(), "status ", "event "), unindent(test.want); got != want {
				t.Errorf("in\n%s\ngot\n%s\nwant\n%s", unindent(test.in), got, want)
			}
			doneIfEmpty(t, s, plan)
		})
	}
}

func unindent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(line, "\t"); strings.TrimSpace(line) != "" {
			fmt.Fprintln(&b, strings.TrimRight(line, "\n"))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
