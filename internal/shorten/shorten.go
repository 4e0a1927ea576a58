// Package shorten bounds what conditions and events say.
package shorten

import "strings"

// EventMessage is how many bytes of a message we tell, in an event and in the condition
// that it is about: as many as events.k8s.io/v1 lets one have.
const EventMessage = 1024

// To shortens text to at most limit bytes, without cutting a character in two.
func To(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}
