package pod2

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Letters that spell no word and cannot be mistaken for one another, as in the
// names that Kubernetes generates; 10 of them are 47 bits.
const (
	hashLetters = "bcdfghjklmnpqrstvwxz2456789"
	hashLength  = 10
)

// RevisionHash identifies what a replica is made from: the template, the names of
// the Networks and serviceName. It is a label value of 10 characters.
//
// It hashes canonical JSON of what the user set, keys sorted and without nulls
// and empty maps and lists. So it survives a release of the Kubernetes API whose
// types have new fields, and a controller upgrade replaces no pod:
//
//	{"containers":[{"name":"a","image":"x","resources":{}}]}   the same
//	{"containers":[{"name":"a","image":"x"}]}                  as this
//
// An empty selector stays: it selects everything, where none selects nothing.
func RevisionHash(p *v1.Pod2) string {
	networks := make([]string, 0, len(p.Spec.Networks))
	for _, n := range p.Spec.Networks {
		networks = append(networks, n.Name)
	}
	slices.Sort(networks)

	// Every value that came from the API server encodes. Should another fail, its
	// hash is that of nothing: stable, like any.
	raw, _ := json.Marshal(map[string]any{"template": p.Spec.Template, "networks": networks, "serviceName": p.Spec.ServiceName})
	return hash(canonical(raw))
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	n := binary.BigEndian.Uint64(sum[:])
	letters := make([]byte, hashLength)
	for i := range letters {
		letters[i] = hashLetters[n%uint64(len(hashLetters))]
		n /= uint64(len(hashLetters))
	}
	return string(letters)
}

// canonical JSON; nil for what is not JSON.
func canonical(raw []byte) []byte {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber() // an int64 would lose digits as a float64
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	prune(value)
	text, _ := json.Marshal(value)
	return text
}

// prune removes fields without content, from the innermost out. Elements of
// lists stay, because their place may count.
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
