package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pod2/pod2/internal/dashboard/view"
)

// goneKept bounds the removals that a Store remembers. A page that missed more of them gets the whole state.
const goneKept = 10_000

// Store has the latest value of each record. A page asks for all changes since the last number that it knows. So a
// page that is slow skips values in between, and nothing waits for it in a queue.
type Store struct {
	mu      sync.Mutex
	number  uint64 // of the last change
	values  map[string]value
	gone    []removal // the last ones, in order
	lost    uint64    // the number of the last removal that is not in gone
	changed chan struct{}
}

type value struct {
	number uint64
	json   json.RawMessage
}

type removal struct {
	number uint64
	key    string
}

// Changes are the new values, by key. The value of a key that is gone is null.
type Changes struct {
	// Number to ask with next.
	Number uint64
	// Whole says that the values are all that there are.
	Whole  bool
	Values map[string]json.RawMessage
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{values: map[string]value{}, changed: make(chan struct{})} }

// Replace the records that had the keys was by others. A record that stays the same is no change.
func (s *Store) Replace(was []string, is []view.Record) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, stays := s.number, make(map[string]bool, len(is))
	for _, record := range is {
		text, err := json.Marshal(record.Value)
		if err != nil {
			panic(fmt.Sprintf("record %s: %v", record.Key, err)) // records are structures of strings and numbers
		}
		keys = append(keys, record.Key)
		stays[record.Key] = true
		if old, ok := s.values[record.Key]; !ok || !bytes.Equal(old.json, text) {
			s.number++
			s.values[record.Key] = value{s.number, text}
		}
	}
	for _, key := range was {
		if _, ok := s.values[key]; ok && !stays[key] {
			s.number++
			delete(s.values, key)
			s.gone = append(s.gone, removal{s.number, key})
		}
	}
	if drop := len(s.gone) - goneKept; drop > goneKept { // seldom, because it copies
		s.lost = s.gone[drop-1].number
		s.gone = append([]removal(nil), s.gone[drop:]...)
	}
	if s.number != before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return keys
}

// Since returns the changes after a number; all values for 0. The channel is closed at the next change.
func (s *Store) Since(number uint64) (Changes, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Changes{Number: s.number, Whole: number == 0 || number < s.lost, Values: map[string]json.RawMessage{}}
	if number == s.number {
		return c, s.changed
	}
	if !c.Whole {
		for i := len(s.gone) - 1; i >= 0 && s.gone[i].number > number; i-- {
			c.Values[s.gone[i].key] = json.RawMessage("null")
		}
	}
	for key, v := range s.values {
		if c.Whole || v.number > number {
			c.Values[key] = v.json
		}
	}
	return c, s.changed
}
