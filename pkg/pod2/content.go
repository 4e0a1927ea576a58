package pod2

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Content is everything that a replica is made from, except its ordinal.
type Content struct {
	Template    corev1.PodTemplateSpec `json:"template"`
	Networks    []Network              `json:"networks"` // in name order
	ServiceName string                 `json:"serviceName"`
}

// ContentOf returns the content of a spec.
func ContentOf(p *v1.Pod2) Content {
	return Content{Template: p.Spec.Template, Networks: networksOf(p), ServiceName: p.Spec.ServiceName}
}

// canonical returns the JSON of the fields that the user set: keys are sorted, and nulls
// and empty maps and lists are removed. A later Kubernetes API with new fields does not
// change it, so a controller upgrade replaces no pod:
//
//	{"containers":[{"name":"a","image":"x","resources":{}}]}   equals
//	{"containers":[{"name":"a","image":"x"}]}
//
// An empty selector stays: it selects everything, while a missing one selects nothing.
func (c Content) canonical() []byte {
	// Every value from the API server encodes. Any other that fails has the hash of empty
	// content, which is stable too.
	raw, _ := json.Marshal(c)
	return canonical(raw)
}

// RevisionHash identifies the content of a spec, except interfaces and addresses. It is a
// label value of 10 characters, and usually the end of the name of a ControllerRevision.
func RevisionHash(p *v1.Pod2) string { return hash(ContentOf(p).withoutDetails().canonical(), 0) }

// These letters spell no word and are hard to confuse, like those in the names that
// Kubernetes generates. 10 of them are 47 bits.
const (
	hashLetters = "bcdfghjklmnpqrstvwxz2456789"
	hashLength  = 10
)

func hash(text []byte, collisions int32) string {
	if collisions > 0 {
		text = strconv.AppendInt(slices.Clip(text), int64(collisions), 10)
	}
	sum := sha256.Sum256(text)
	n := binary.BigEndian.Uint64(sum[:])
	letters := make([]byte, hashLength)
	for i := range letters {
		letters[i] = hashLetters[n%uint64(len(hashLetters))]
		n /= uint64(len(hashLetters))
	}
	return string(letters)
}

// canonical returns canonical JSON; nil if the input is not JSON.
func canonical(raw []byte) []byte { return canonicalAfter(raw, func(any) {}) }

func canonicalAfter(raw []byte, edit func(value any)) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // an int64 would lose digits as a float64
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	edit(value)
	prune(value)
	text, _ := json.Marshal(value)
	return text
}

// prune removes fields without content, from the innermost outwards. Elements of lists
// stay, because their position may count.
func prune(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			prune(element)
		}
	case map[string]any:
		for key, field := range value {
			prune(field)
			if blank(field, strings.HasSuffix(strings.ToLower(key), "selector")) {
				delete(value, key)
			}
		}
	}
}

func blank(value any, selector bool) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0 && !selector
	}
	return false
}
