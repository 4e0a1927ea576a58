package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// Kind is a kind of objects in the API server of the model.
type Kind uint8

// The kinds, in the order in which a state lists them.
const (
	Networks Kind = iota
	Blocks
	Pods
	Pod2s
	Revisions
	Histories
	kinds
)

func (k Kind) String() string {
	return [...]string{"networks", "addressblocks", "pods", "pod2s", "controllerrevisions", "addresshistories"}[k]
}

// resource is the kind in the form of test/apiserver.
func (k Kind) resource() *apiserver.Resource { return resources[k] }

var resources = func() (all [kinds]*apiserver.Resource) {
	for k := range kinds {
		all[k] = apiserver.ResourceNamed(k.String())
	}
	return all
}()

func newValue(k Kind) apiserver.Object {
	switch k {
	case Networks:
		return &v1.Network{}
	case Blocks:
		return &v1.AddressBlock{}
	case Pods:
		return &corev1.Pod{}
	case Pod2s:
		return &v1.Pod2{}
	case Revisions:
		return &appsv1.ControllerRevision{}
	case Histories:
		return &v1.AddressHistory{}
	}
	panic(fmt.Sprintf("no kind %d", k))
}

// Numbers that the API server assigns. Two states that mean the same may differ in them, so
// they have a form that can be found in any JSON. resourceVersions are counted for each
// kind separately.
const (
	firstVersion  = 10000
	versionField  = `"resourceVersion":"`
	versionDigits = 5
	uidDigits     = 4
)

func versionText(n uint16) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(firstVersion + int(n))
}

func versionNumber(text string) uint16 {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return uint16(n - firstVersion)
}

func uidText(n uint16) types.UID { return types.UID(fmt.Sprintf("U%0*dU", uidDigits, n)) }

func uidNumber(text types.UID) uint16 {
	if len(text) != uidDigits+2 {
		return 0
	}
	n, _ := strconv.Atoi(string(text[1 : 1+uidDigits]))
	return uint16(n)
}

// hole is a place of a number of the API server in the JSON of an object.
type hole struct {
	at      int
	version bool // otherwise a UID
}

// object is one version of an object of the API. Equal contents share one pointer, and id
// identifies the content.
type object struct {
	id      uint32
	kind    Kind
	shape   *shape
	numbers []uint16
	name    string
	uid     uint16
	version uint16
	value   apiserver.Object // read only
	slim    metav1.Object    // the form that a cache keeps

	held []spec.Held // by a live pod
	read bool        // whether held is set
}

// shape is the common part of objects that differ only in numbers.
type shape struct {
	id    uint32
	kind  Kind
	text  []byte // numbers are blanked
	holes []hole
}

// objects interns objects.
type objects struct {
	shapes map[string]*shape
	byKey  map[string]*object
	slim   func(metav1.Object) metav1.Object
}

func newObjects(slim func(metav1.Object) metav1.Object) *objects {
	return &objects{shapes: map[string]*shape{}, byKey: map[string]*object{}, slim: slim}
}

// of returns the object of a value. The value is not read again.
func (o *objects) of(k Kind, value apiserver.Object) *object {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	holes := findHoles(text)
	numbers := make([]uint16, 0, len(holes))
	for _, h := range holes {
		numbers = append(numbers, readNumber(text, h))
		blank(text, h)
	}
	key := string(rune('a'+k)) + string(text)
	s := o.shapes[key]
	if s == nil {
		s = &shape{id: uint32(len(o.shapes)), kind: k, text: text, holes: holes}
		o.shapes[key] = s
	}
	return o.filled(s, numbers)
}

// filled returns the object of a shape with these numbers.
func (o *objects) filled(s *shape, numbers []uint16) *object {
	var buffer [96]byte
	key := binary.LittleEndian.AppendUint32(buffer[:0], s.id)
	for _, n := range numbers {
		key = binary.LittleEndian.AppendUint16(key, n)
	}
	if known, ok := o.byKey[string(key)]; ok {
		return known
	}
	text := bytes.Clone(s.text)
	for i, h := range s.holes {
		if h.version {
			copy(text[h.at:], versionText(numbers[i]))
		} else {
			copy(text[h.at:], uidText(numbers[i]))
		}
	}
	value := newValue(s.kind)
	if err := json.Unmarshal(text, value); err != nil {
		panic(err)
	}
	made := &object{
		id: uint32(len(o.byKey) + 1), kind: s.kind, shape: s, numbers: append([]uint16(nil), numbers...), value: value,
		name: value.GetName(), uid: uidNumber(value.GetUID()), version: versionNumber(value.GetResourceVersion()),
	}
	made.slim = o.slim(value)
	o.byKey[string(key)] = made
	return made
}

func findHoles(text []byte) []hole {
	var holes []hole
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == 'U' && i+uidDigits+1 < len(text) && text[i+uidDigits+1] == 'U' && digits(text[i+1:i+1+uidDigits]):
			holes = append(holes, hole{at: i})
			i += uidDigits + 1
		case text[i] == '"' && bytes.HasPrefix(text[i:], []byte(versionField)):
			i += len(versionField)
			if digits(text[i : i+versionDigits]) {
				holes = append(holes, hole{at: i, version: true})
			}
		}
	}
	return holes
}

func digits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func readNumber(text []byte, h hole) uint16 {
	if h.version {
		return versionNumber(string(text[h.at : h.at+versionDigits]))
	}
	return uidNumber(types.UID(text[h.at : h.at+uidDigits+2]))
}

func blank(text []byte, h hole) {
	if h.version {
		copy(text[h.at:], strings.Repeat("0", versionDigits))
	} else {
		copy(text[h.at:], uidText(0))
	}
}

// numbering maps the numbers of a state to those of the state that represents all states
// with the same meaning.
type numbering struct {
	versions [kinds][]uint16 // by old number
	uids     []uint16
}

func (o *objects) renumber(old *object, n *numbering) *object {
	var buffer [24]uint16
	numbers, changed := buffer[:0], false
	for i, h := range old.shape.holes {
		was := old.numbers[i]
		is := was
		if h.version {
			is = n.versions[old.kind][was]
		} else if was != 0 {
			is = n.uids[was]
		}
		changed = changed || is != was
		numbers = append(numbers, is)
	}
	if !changed {
		return old
	}
	return o.filled(old.shape, numbers)
}
