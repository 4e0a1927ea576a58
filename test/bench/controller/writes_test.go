package main

import (
	"testing"

	"github.com/pod2/pod2/test/bench/measure"
)

// The writes for each pod are those of the contender's controllers. AddressHistories are counted
// apart, because they are written later.
func TestWritesForEachPod(t *testing.T) {
	l := &lap{Results: measure.Results{}, contender: contender{users: []string{pod2User}}, n: 10}
	l.addWrites(measure.Writes{
		{User: pod2User, Verb: "create", Resource: "pods"}:             10,
		{User: pod2User, Verb: "update", Resource: "addressblocks"}:    5,
		{User: pod2User, Verb: "create", Resource: "addressslices"}:    3,
		{User: pod2User, Verb: "update", Resource: histories}:          20,
		{User: statefulSetUser, Verb: "create", Resource: "pods"}:      40,
		{User: pod2User, Verb: "deletecollection", Resource: "events"}: 80,
	}, "created")
	for figure, want := range map[string]float64{"POST": 1.3, "PUT": 0.5, "DELETE": 8, "writes": 9.8, "protocol": 1.5, "slices": 0.3} {
		if got := l.Median("created", figure); got != want {
			t.Errorf("%s: %g for each pod, want %g", figure, got, want)
		}
	}
}
