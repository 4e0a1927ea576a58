//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// joining is what so many Networks cost the agent of a node that has a pod on each: links,
// router, rules.
type joining struct {
	apply         time.Duration // until they are there
	read, compare time.Duration // once more, with nothing to do
}

// measureJoining has them all of one CIDR.
func measureJoining(dir string, networks int) (j joining, err error) {
	a, err := newAlone(filepath.Join(dir, fmt.Sprint("networks-", networks)))
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	for i := range networks {
		a.join(newNetwork(fmt.Sprint("net", i), int32(2000+i), "192.168.0.0/16"), "192.168.0.2")
	}
	if j.apply, err = a.sync(); err != nil {
		return j, err
	}
	j.read, j.compare, err = a.rest()
	return j, err
}

// joined is a figure of so many Networks, in milliseconds.
func (r *results) joined(networks int, what func(joining) time.Duration) figure {
	return figureBy(r.joinings[networks], func(j joining) float64 { return milliseconds(what(j)) })
}

func (j joining) made() time.Duration     { return j.apply }
func (j joining) reading() time.Duration  { return j.read }
func (j joining) deciding() time.Duration { return j.compare }

// perNetwork is what one Network more adds, in milliseconds, by the fewest and the most
// that were measured.
func (r *results) perNetwork(what func(joining) time.Duration) float64 {
	few, many := r.networks[0], r.networks[len(r.networks)-1]
	return (r.joined(many, what).median - r.joined(few, what).median) / float64(many-few)
}

func (r *results) networksTable() string {
	var s strings.Builder
	s.WriteString("| Networks, each with a pod of the node | made, ms | nothing to do: read, ms | decided, ms |\n|---|---|---|---|\n")
	for _, n := range r.networks {
		fmt.Fprintf(&s, "| %d | %s | %s | %s |\n", n, r.joined(n, joining.made).text("%.1f"), r.joined(n, joining.reading).text("%.1f"), r.joined(n, joining.deciding).text("%.1f"))
	}
	return s.String()
}
