package apiserver

import (
	"maps"
	"slices"
)

// Snapshot is the store of a server at one moment. Another server can continue from it.
type Snapshot struct {
	version, uids int
	objects       map[Key]*Version
	history       []Change
}

// Snapshot returns a snapshot of the present state. The server is locked.
func (s *Server) Snapshot() *Snapshot {
	for _, c := range s.history {
		c.New.JSON() // encode now, because several bubbles may need it at once later
	}
	return &Snapshot{s.version, s.uids, maps.Clone(s.objects), slices.Clip(slices.Clone(s.history))}
}

// Version is the latest resourceVersion.
func (s *Snapshot) Version() int { return s.version }

// Restore lets an unused server continue from a snapshot.
func (s *Server) Restore(from *Snapshot) {
	s.version, s.uids, s.objects, s.history = from.version, from.uids, maps.Clone(from.objects), from.history
}

// Points returns the resourceVersions after a moment at which objects of a resource
// changed.
func (s *Server) Points(resource string, after int) (points []int) {
	s.Lock()
	defer s.Unlock()
	for _, c := range s.history {
		if c.Key.Resource == resource && c.New.Number > after {
			points = append(points, c.New.Number)
		}
	}
	return points
}

// History is every change, in order. The server is locked.
func (s *Server) History() []Change { return s.history }

// Objects returns all stored objects. The server is locked.
func (s *Server) Objects() map[Key]*Version { return s.objects }
