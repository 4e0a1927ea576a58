// Package shorten limits the length of messages in conditions and events.
package shorten

import "strings"

// EventMessage is the limit in bytes for a message in an event and in its condition. It
// is the limit of events.k8s.io/v1.
const EventMessage = 1024

// To shortens text to at most limit bytes, without cutting a character in two.
func To(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}
