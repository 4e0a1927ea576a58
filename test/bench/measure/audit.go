package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Write is a kind of write request.
type Write struct{ User, Verb, Resource string }

// Writes are numbers of requests, failed ones included.
type Writes map[Write]int

// Sum of the writes that match.
func (w Writes) Sum(match func(Write) bool) (n int) {
	for write, count := range w {
		if match(write) {
			n += count
		}
	}
	return n
}

// Audit reads the audit log of an API server while it grows. The server logs a request with
// its user, so the log separates a controller's writes from those of all others.
type Audit struct {
	path   string
	offset int64
}

// Read the writes since the last Read. The policy of the log selects the users.
func (a *Audit) Read() Writes {
	file := Must(os.Open(a.path))
	defer file.Close()
	Must(file.Seek(a.offset, io.SeekStart))
	text := Must(io.ReadAll(file))
	// The server may be writing the last line.
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	a.offset += int64(len(text))
	return parseAudit(text)
}

// parseAudit counts the events, one in a line.
func parseAudit(text []byte) Writes {
	writes := Writes{}
	for line := range bytes.Lines(text) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			Check(fmt.Errorf("read the audit log: %w: %s", err, line))
		}
		write := Write{event.User.Username, event.Verb, event.ObjectRef.Resource}
		if event.ObjectRef.Subresource != "" {
			write.Resource += "/" + event.ObjectRef.Subresource
		}
		writes[write]++
	}
	return writes
}
