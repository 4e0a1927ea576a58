package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// renderState has one line for each kind of object in the State.
func renderState(s network.State) string {
	var lines []string
	line := func(what string, names ...string) {
		if len(names) > 0 {
			lines = append(lines, what+": "+strings.Join(names, " "))
		}
	}
	if s.Network != nil {
		line("network", s.Network.Name)
	}
	line("blocks", namesOf(s.Blocks)...)
	line("pods", namesOf(s.Pods)...)
	for _, n := range s.Neighbours {
		name := n.Name
		if n.Network == nil {
			name += " (absent)"
		}
		line("neighbour", append([]string{name}, namesOf(n.Blocks)...)...)
	}
	var owners []string
	for owner, r := range s.Owners {
		owners = append(owners, fmt.Sprintf("%s/%s %s on %s", owner.Kind, owner.Name, r.Ordinals, strings.Join(r.Networks, ",")))
	}
	slices.Sort(owners)
	line("owners", owners...)
	return strings.Join(lines, "\n")
}

func namesOf[T interface{ GetName() string }](objects []T) []string {
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// blockAt is an empty AddressBlock at another address.
func blockAt(network, third string) *v1.AddressBlock {
	b := newBlock(network)
	b.Name, b.Spec.CIDR = network+"-10.1."+third+".0", "10.1."+third+".0/24"
	return b
}

func withStart(p *v1.Pod2, start int32) *v1.Pod2 {
	p.Spec.Ordinals = &v1.Pod2Ordinals{Start: start}
	return p
}

func withTemplateRequest(p *v1.Pod2, request string) *v1.Pod2 {
	p.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: request}
	return p
}

func going(p *v1.Pod2) *v1.Pod2 {
	p.DeletionTimestamp = ptr.To(p.CreationTimestamp)
	return p
}

func TestObserveNetwork(t *testing.T) {
	elsewhere := newPod("e on=blue")
	elsewhere.Namespace = "other"
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"nothing", nil, ""},
		{"no Network, but pods and blocks that name it", []runtime.Object{newBlock("blue"), newPod("a gated on=blue")},
			"blocks: blue-10.1.0.0\npods: a"},
		{"only its blocks, in order", []runtime.Object{newNetwork("blue"), blockAt("blue", "9"), blockAt("blue", "3"), newBlock("green"), newBlock("blue")},
			"network: blue\nblocks: blue-10.1.0.0 blue-10.1.3.0 blue-10.1.9.0"},
		{"pods that ask, publish, or are named, in order", []runtime.Object{
			newBlock("blue", "10.1.0.4 named Bound", "10.1.0.5 missing Bound"),
			newPod("stranger on=green"), newPod("published published=blue:10.1.0.3"), newPod("named"), newPod("asks on=blue"), newPod("unlabelled on=blue unlabelled")},
			"blocks: blue-10.1.0.0\npods: asks named published"},
		{"other Networks of pods that wait", []runtime.Object{newNetwork("green"), newBlock("green"), newPod("a gated on=blue,green,red"), newPod("b gated on=blue,green")},
			"pods: a b\nneighbour: green green-10.1.0.0\nneighbour: red (absent)"},
		{"no other Networks of pods that do not wait", []runtime.Object{newNetwork("green"), newPod("runs on=blue,green"), newPod("ended gated on=blue,green phase=Failed")},
			"pods: ended runs"},
		{"no other Networks of pods that wait only for others", []runtime.Object{newBlock("blue", "10.1.0.4 a Bound"), newNetwork("green"), newPod("a gated on=green,red")},
			"blocks: blue-10.1.0.0\npods: a"},
		{"owners of entries and of pods", []runtime.Object{
			newBlock("blue", "10.1.0.4 web-5 Reserved Pod2/web"), withStart(newPod2("web", 3, "green", "blue"), 5),
			newStatefulSet("db", "blue", 7, 2), newPod("db-7 on=blue of=StatefulSet/db")},
			"blocks: blue-10.1.0.0\npods: db-7\nowners: Pod2/web 5+3 on green,blue StatefulSet/db 7+2 on blue"},
		{"owners of entries of neighbours", []runtime.Object{newPod("a gated on=blue,green"), newBlock("green", "10.1.0.4 web-0 Reserved Pod2/web"), newPod2("web", 1, "green")},
			"pods: a\nneighbour: green (absent) green-10.1.0.0\nowners: Pod2/web 0+1 on green"},
		{"a Pod2 whose template asks", []runtime.Object{newPod("web-0 on=blue of=Pod2/web"), withTemplateRequest(newPod2("web", 1), "blue")},
			"pods: web-0\nowners: Pod2/web 0+1 on blue"},
		{"a Pod2 that is being deleted still exists", []runtime.Object{newPod("web-0 on=blue of=Pod2/web"), going(newPod2("web", 1, "blue"))},
			"pods: web-0\nowners: Pod2/web 0+1 on blue"},
		{"no owners that are gone, or whose names are not stable", []runtime.Object{
			newBlock("blue", "10.1.0.4 web-0 Reserved Pod2/web"), newStatefulSet("rs", "blue", 0, 1), newPod("rs-x on=blue of=ReplicaSet/rs"), newPod("bare on=blue")},
			"blocks: blue-10.1.0.0\npods: bare rs-x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			state, _, err := w.r.kinds.network.observe(blue)
			if err != nil {
				t.Fatal(err)
			}
			same(t, renderState(state), row.want)
		})
	}
}

// Pods that AddressBlocks name may hold their address; pods that publish an address hold it.
func TestObserveNetworkAddsWhatWasFound(t *testing.T) {
	w := newWorld(t, newBlock("blue", "10.1.0.2 named Bound"))
	for _, text := range []string{"named unlabelled", "publishes unlabelled published=blue:10.1.0.3", "asks unlabelled on=blue", "other unlabelled published=green:10.1.0.3"} {
		w.r.writePods.unwatched.remember(newPod(text))
	}
	state, _, _ := w.r.kinds.network.observe(blue)
	same(t, renderState(state), "blocks: blue-10.1.0.0\npods: named publishes")
}

func TestObserveNetworkTellsTheTime(t *testing.T) {
	w := newWorld(t)
	state, _, _ := w.r.kinds.network.observe(blue)
	same(t, fmt.Sprint(state.Now, state.Namespace, state.Name), fmt.Sprint(now, ns, "blue"))
}

func TestObservePod2(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		found   []string
		want    string
	}{
		{"Networks that exist, in order", []runtime.Object{newPod2("web", 1, "green", "blue", "red"), newNetwork("green"), newNetwork("blue"), newNetwork("other")}, nil,
			"networks: [blue green] pods: []"},
		{"Networks of the template", []runtime.Object{withTemplateRequest(newPod2("web", 1), "blue"), newNetwork("blue")}, nil,
			"networks: [blue] pods: []"},
		{"pods by controller, by label and by name, in order", []runtime.Object{newPod2("web", 1),
			newPod("web-2 of=Pod2/web"), newPod("claims label=web"), newPod("web-1 of=Pod2/web label=web"), newPod("web-9"), newPod("db-0 of=Pod2/db label=db"), newPod("rs of=ReplicaSet/web")}, nil,
			"networks: [] pods: [claims web-1 web-2 web-9]"},
		{"pods found under a replica's name", []runtime.Object{newPod2("web", 1)}, []string{"web-0", "web-x", "db-0", "web-00"},
			"networks: [] pods: [web-0]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			for _, name := range row.found {
				w.r.writePods.unwatched.remember(newPod(name + " unlabelled"))
			}
			state, _, err := w.r.kinds.pod2.observe(web)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("networks: %v pods: %v", namesOf(state.Networks), namesOf(state.Pods)), row.want)
		})
	}
}

func TestNothingIsDecidedForAPod2ThatDoesNotExist(t *testing.T) {
	w := newWorld(t, newPod("web-0 of=Pod2/web"))
	if state, _, err := w.r.kinds.pod2.observe(web); !errors.Is(err, errNothing) {
		t.Errorf("got %v, %v", state.Pod2, err)
	}
}

// The garbage collector deletes its pods, perhaps thousands. A look at all after each would be slow.
func TestThePodsOfADeletedPod2AreNotRead(t *testing.T) {
	w := newWorld(t, going(newPod2("web", 1)), newPod("web-0 of=Pod2/web"))
	if state, _, err := w.r.kinds.pod2.observe(web); err != nil || len(state.Pods) > 0 {
		t.Errorf("pods %v, %v", namesOf(state.Pods), err)
	}
}

// A Pod2 stored with an older schema may lack fields that the schema now defaults.
func TestDefaultsAreFilledIn(t *testing.T) {
	p := newPod2("web", 1)
	p.Spec.Replicas = nil
	w := newWorld(t, p)
	state, _, _ := w.r.kinds.pod2.observe(web)
	same(t, fmt.Sprint(ptr.Deref(state.Pod2.Spec.Replicas, -1), state.Pod2.Spec.UpdateStrategy.Type), "1RollingUpdate")
}

func TestDefaultsDoNotChangeTheCache(t *testing.T) {
	p := newPod2("web", 1)
	p.Spec.Replicas = nil
	w := newWorld(t, p)
	before := p.DeepCopy()
	_, _, _ = w.r.kinds.pod2.observe(web)
	cached := w.r.pod2s.get(ns, "web")
	if !equality.Semantic.DeepEqual(before.Spec, cached.Spec) {
		t.Errorf("the cache has %+v", cached)
	}
}

// A Kubernetes release with another default must not replace all pods.
func TestDefaultsDoNotChangeTheHashOfTheTemplate(t *testing.T) {
	p := newPod2("web", 1) // its port has no protocol
	w := newWorld(t, p)
	state, _, _ := w.r.kinds.pod2.observe(web)
	same(t, pod2.RevisionHash(state.Pod2), pod2.RevisionHash(p))
}

func TestObservePod(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"the Networks it asks for, with the blocks that name it", []runtime.Object{
			newPod("a gated on=blue,green"), newNetwork("blue"), newNetwork("green"), newNetwork("red"),
			newBlock("blue", "10.1.0.2 a Bound"), newBlock("green", "10.1.0.2 b Bound"), newBlock("red", "10.1.0.2 a Bound")},
			"blue [blue-10.1.0.0], green []"},
		{"a Network that does not exist", []runtime.Object{newPod("a gated on=blue")}, "blue (absent) []"},
		{"an unreadable request", []runtime.Object{newPod("a gated on=,"), newNetwork("blue")}, ""},
		{"a block whose Network is not in the cache", []runtime.Object{newPod("a gated on=blue"), newBlock("blue", "10.1.0.2 a Bound")}, "stale"},
		{"a block whose Network is not in the cache, which has an earlier one", []runtime.Object{
			newPod("a gated on=blue"), another(newNetwork("blue")), newBlock("blue", "10.1.0.2 a Bound")}, "stale"},
		{"no Network, but the pod is published", []runtime.Object{newPod("a on=blue"), newBlock("blue", "10.1.0.2 a Bound")}, "blue (absent) [blue-10.1.0.0]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			state, _, _ := w.r.kinds.pod.observe(podA)
			var networks []string
			for _, n := range state.Networks {
				name := n.Name
				if n.Network == nil {
					name += " (absent)"
				}
				networks = append(networks, fmt.Sprintf("%s %v", name, namesOf(n.Blocks)))
			}
			got := strings.Join(networks, ", ")
			if _, err := w.sync(KindPod, "a"); errors.Is(err, ErrStale) {
				got = "stale"
			}
			same(t, got, row.want)
		})
	}
}

func TestAPod2ThatIsGoneIsLeftAlone(t *testing.T) {
	w := newWorld(t, newPod("web-0 of=Pod2/web"))
	calls, err := w.sync(KindPod2, "web")
	if err != nil || calls != "" {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

func TestAPodThatIsGoneIsLeftAlone(t *testing.T) {
	w := newWorld(t, newBlock("blue", "10.1.0.2 a Bound"))
	calls, err := w.sync(KindPod, "a")
	if err != nil || calls != "" {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

func TestAnUnknownKindIsAnError(t *testing.T) {
	w := newWorld(t)
	_, err := w.sync("Nonsense", "a")
	same(t, fmt.Sprint(err), "sync Nonsense default/a: no such kind")
}
