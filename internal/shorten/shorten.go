// Package shorten bounds what conditions and events say.
package shorten

import "strings"

// EventMessage is how many bytes an event's message may have (validation of core/v1 Event); a
// condition that is told as an event keeps to it too.
const EventMessage = 1024

// To shortens text to at most limit bytes, without cutting a character in two: an
// object that is not UTF-8 cannot be sent.
func To(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}
