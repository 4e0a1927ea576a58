// Package ordinals numbers the replicas of a Pod2 or a StatefulSet: <owner>-0,
// <owner>-1 and so on.
package ordinals

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is the ordinals of replicas, in the order of their places, without the reserved
// ones. The ordinals of surge replicas follow in the same way:
//
//	start 0, count 3, reserved 1     place   0 1 2 | 3
//	                                 ordinal 0 2 3 | 4
type Range struct {
	start, count int32
	reserved     []int32 // ascending, none below start, each once
}

// New takes reserved ordinals in any order, including those far outside the range.
func New(start, count int32, reserved []int32) Range {
	r := Range{start: start, count: max(count, 0)}
	for _, ordinal := range reserved {
		if ordinal >= start {
			r.reserved = append(r.reserved, ordinal)
		}
	}
	slices.Sort(r.reserved)
	r.reserved = slices.Compact(r.reserved)
	return r
}

// String returns "5+3 without [6]" for three replicas from 5 on.
func (r Range) String() string {
	text := fmt.Sprintf("%d+%d", r.start, r.count)
	if len(r.reserved) > 0 {
		text += fmt.Sprintf(" without %d", r.reserved)
	}
	return text
}

// Count returns the number of replicas.
func (r Range) Count() int { return int(r.count) }

// At returns the ordinal at a place, from 0.
func (r Range) At(place int) int32 {
	ordinal := r.start + int32(place)
	for _, reserved := range r.reserved {
		if reserved > ordinal {
			break
		}
		ordinal++
	}
	return ordinal
}

// Place returns the place of an ordinal; for a surge replica, at or beyond Count. It
// returns false for a reserved ordinal and for one before the first.
func (r Range) Place(ordinal int32) (int, bool) {
	before, reserved := slices.BinarySearch(r.reserved, ordinal)
	return int(ordinal) - int(r.start) - before, ordinal >= r.start && !reserved
}

// Has reports whether a replica has the ordinal.
func (r Range) Has(ordinal int32) bool {
	place, ok := r.Place(ordinal)
	return ok && place < int(r.count)
}

// Name returns the name of the pod with an ordinal: web-0.
func Name(owner string, ordinal int32) string {
	return owner + "-" + strconv.FormatInt(int64(ordinal), 10)
}

// Parse is the inverse of Name. It returns false for every name that Name never returns,
// such as web-01, web-+1 and web-99999999999.
func Parse(owner, pod string) (int32, bool) {
	of, ordinal, ok := Split(pod)
	if !ok || of != owner {
		return 0, false
	}
	return ordinal, true
}

// Split is Parse for any owner, and returns its name.
func Split(pod string) (owner string, ordinal int32, ok bool) {
	dash := strings.LastIndexByte(pod, '-')
	if dash < 0 {
		return "", 0, false
	}
	digits := pod[dash+1:]
	number, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return "", 0, false
	}
	return pod[:dash], int32(number), true
}
