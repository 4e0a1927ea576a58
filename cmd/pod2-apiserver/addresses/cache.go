// Package addresses serves Addresses from caches of AddressBlocks, pods and Networks.
package addresses

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	"github.com/pod2/pod2/cmd/pod2-apiserver/projection"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// logged is the number of events that a cache keeps for watches that continue.
const logged = 32768

// event is a change of one Address.
type event struct {
	// at is the version with this event, and version its text.
	at            version
	version       string
	before, after *view.Address // nil: it does not exist
}

// address is the Address in its last state.
func (e event) address() *view.Address {
	if e.after != nil {
		return e.after
	}
	return e.before
}

// Cache has the Addresses, and the newest events. Addresses in it never change: an event
// replaces them.
type Cache struct {
	mu sync.RWMutex
	// changed is closed at the next change.
	changed chan struct{}
	synced  [sources]bool

	// at is the newest change of each source. since is the change from which on all events
	// are known: those in the log, and those that made no difference. seen is at least at:
	// the API server said that nothing changed between them.
	at, since, seen version
	log             []event
	dropped         int // events that were in front of the log
	// unknown says that a change was the deletion of an object that the cache never had.
	unknown bool

	blocks   map[string]*block
	pods     map[string]pod
	networks map[string]*v1.Network
	// byPod has the AddressBlocks that name a pod.
	byPod  map[string]map[string]bool
	sorted []*view.Address // in order
}

type block struct {
	*v1.AddressBlock
	addresses []*view.Address
}

type pod struct {
	uid  types.UID
	node string
}

// New returns an empty cache. Run fills it.
func New() *Cache {
	return &Cache{changed: make(chan struct{}), blocks: map[string]*block{}, pods: map[string]pod{}, networks: map[string]*v1.Network{}, byPod: map[string]map[string]bool{}}
}

// path is the key of an object.
func path(namespace, name string) string { return namespace + "/" + name }

// missing returns the sources whose objects have not been listed yet.
func (c *Cache) missing() []string {
	var names []string
	for s, synced := range c.synced {
		if !synced {
			names = append(names, source(s).String())
		}
	}
	return names
}

// notify wakes all that wait for a change.
func (c *Cache) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// saw records that a source has no changes up to a resourceVersion, except those already
// applied.
func (c *Cache) saw(s source, resourceVersion uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[s] = max(c.seen[s], complete(resourceVersion))
	c.notify()
}

// apply applies one change of a source. change changes the maps, and returns the keys of the
// AddressBlocks whose Addresses may differ.
func (c *Cache) apply(s source, resourceVersion uint64, change func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.change(s, resourceVersion, change)
	c.notify()
}

func (c *Cache) change(s source, resourceVersion uint64, change func() []string) {
	c.unknown = false
	keys := change()
	if c.unknown { // another replica may have the object, so its deletion is a change that this one cannot report
		c.since[s] = max(c.since[s], complete(resourceVersion))
	}
	if len(c.missing()) == 0 {
		c.record(s, resourceVersion, keys)
	}
	c.at[s] = max(c.at[s], complete(resourceVersion))
	c.seen[s] = max(c.seen[s], c.at[s])
}

// listed applies a list of all objects of a source. Changes between the last event and the
// list are unknown, so no watch can continue before the list. Events begin when all
// sources are listed, so no watch can continue before that either.
func (c *Cache) listed(s source, resourceVersion uint64, change func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notify()
	c.since[s] = max(c.since[s], complete(resourceVersion))
	c.change(s, resourceVersion, change)
	if c.synced[s] {
		return
	}
	c.synced[s] = true
	if len(c.missing()) > 0 {
		return
	}
	c.since = c.since.max(c.at)
	for _, key := range slices.Sorted(maps.Keys(c.blocks)) {
		b := c.blocks[key]
		b.addresses = c.project(b.AddressBlock)
		for _, a := range b.addresses {
			a.ResourceVersion = c.at.String()
		}
		c.sorted = append(c.sorted, b.addresses...)
	}
	slices.SortFunc(c.sorted, projection.Order)
}

// record computes the Addresses of AddressBlocks anew, and appends an event for each
// difference.
func (c *Cache) record(s source, resourceVersion uint64, keys []string) {
	var events []event
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		events = append(events, c.differences(key)...)
	}
	for i, e := range events {
		part := incomplete(resourceVersion)
		if i == len(events)-1 {
			part = complete(resourceVersion)
		}
		c.at[s] = max(c.at[s], part)
		e.at, e.version = c.at, c.at.String()
		if e.after != nil {
			e.after.ResourceVersion = e.version
		}
		c.replace(e)
		c.log = append(c.log, e)
	}
	if len(c.log) > logged {
		drop := len(c.log) - logged*3/4
		for _, e := range c.log[:drop] {
			for s, part := range e.at {
				c.since[s] = max(c.since[s], part|1)
			}
		}
		c.log, c.dropped = slices.Clone(c.log[drop:]), c.dropped+drop
	}
}

// differences computes the Addresses of one AddressBlock anew. An unchanged Address stays
// the same object.
func (c *Cache) differences(key string) (events []event) {
	b := c.blocks[key]
	before := b.addresses
	if b.AddressBlock == nil {
		b.addresses = nil
		delete(c.blocks, key)
	} else {
		b.addresses = c.project(b.AddressBlock)
	}
	known := map[string]*view.Address{}
	for _, a := range before {
		known[a.Name] = a
	}
	for i, a := range b.addresses {
		old := known[a.Name]
		delete(known, a.Name)
		if old != nil && same(old, a) {
			b.addresses[i] = old
			continue
		}
		events = append(events, event{before: old, after: a})
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		events = append(events, event{before: known[name]})
	}
	return events
}

func same(a, b *view.Address) bool {
	return a.UID == b.UID && a.Spec == b.Spec && a.Status.State == b.Status.State && a.Status.Node == b.Status.Node &&
		a.Status.Since.Equal(&b.Status.Since) && a.Status.Until.Equal(b.Status.Until)
}

func (c *Cache) project(b *v1.AddressBlock) []*view.Address {
	return projection.Addresses(b, c.networks[path(b.Namespace, b.Spec.Network)], func(name string, uid types.UID) string {
		if p := c.pods[path(b.Namespace, name)]; p.uid == uid {
			return p.node
		}
		return ""
	})
}

// replace replaces an Address in the sorted list.
func (c *Cache) replace(e event) {
	after := e.after
	i, found := slices.BinarySearchFunc(c.sorted, e.address(), projection.Order)
	switch {
	case found && after != nil:
		c.sorted[i] = after
	case found:
		c.sorted = slices.Delete(c.sorted, i, i+1)
	case after != nil:
		c.sorted = slices.Insert(c.sorted, i, after)
	}
}

func (c *Cache) putBlock(object *v1.AddressBlock) []string {
	key := path(object.Namespace, object.Name)
	b := c.blocks[key]
	if b == nil {
		b = &block{}
		c.blocks[key] = b
	}
	c.index(key, b.AddressBlock, object)
	b.AddressBlock = object
	return []string{key}
}

// removeBlock accepts an AddressBlock that the cache never had. The first watch begins
// before the list, so it can report the deletion of one.
func (c *Cache) removeBlock(object *v1.AddressBlock) []string {
	key := path(object.Namespace, object.Name)
	b := c.blocks[key]
	if b == nil {
		b = &block{addresses: c.project(object)}
		c.blocks[key] = b
	}
	c.index(key, b.AddressBlock, nil)
	b.AddressBlock = nil
	if len(c.missing()) > 0 {
		delete(c.blocks, key)
	}
	return []string{key}
}

func (c *Cache) index(key string, before, after *v1.AddressBlock) {
	if before != nil {
		for i := range before.Spec.Entries {
			name := path(before.Namespace, before.Spec.Entries[i].Pod)
			if delete(c.byPod[name], key); len(c.byPod[name]) == 0 {
				delete(c.byPod, name)
			}
		}
	}
	if after != nil {
		for i := range after.Spec.Entries {
			name := path(after.Namespace, after.Spec.Entries[i].Pod)
			if c.byPod[name] == nil {
				c.byPod[name] = map[string]bool{}
			}
			c.byPod[name][key] = true
		}
	}
}

func (c *Cache) setPod(key string, p pod) []string {
	if c.pods[key] == p {
		c.unknown = p == (pod{})
		return nil
	}
	if c.pods[key] = p; p == (pod{}) {
		delete(c.pods, key)
	}
	return slices.Collect(maps.Keys(c.byPod[key]))
}

func (c *Cache) setNetwork(key string, n *v1.Network) []string {
	before := c.networks[key]
	c.unknown = before == nil && n == nil
	if c.networks[key] = n; n == nil {
		delete(c.networks, key)
	}
	if before != nil && n != nil && before.UID == n.UID && (before.DeletionTimestamp == nil) == (n.DeletionTimestamp == nil) && network.ReuseDelay(before) == network.ReuseDelay(n) {
		return nil
	}
	var keys []string
	for at, b := range c.blocks {
		if b.AddressBlock != nil && path(b.Namespace, b.Spec.Network) == key {
			keys = append(keys, at)
		}
	}
	return keys
}

// from returns the Addresses from the start of a namespace on, or from a key on.
func (c *Cache) from(namespace, start string) []*view.Address {
	first := &view.Address{}
	if start != "" {
		first.Namespace, first.Name, _ = strings.Cut(start, "/")
	} else {
		first.Namespace = namespace
	}
	i, _ := slices.BinarySearchFunc(c.sorted, first, projection.Order)
	return c.sorted[i:]
}

// Ready returns an error until all sources have been listed.
func (c *Cache) Ready(*http.Request) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if missing := c.missing(); len(missing) > 0 {
		return fmt.Errorf("waiting for the lists of %s", strings.Join(missing, " and "))
	}
	return nil
}
