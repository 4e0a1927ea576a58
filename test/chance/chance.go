// Package chance throws what the tests of properties are made from: by seed, or by
// the bytes that a fuzzer tries.
package chance

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
)

var seed = flag.Uint64("seed", 0, "seed of the dice, and of the first state of each property; 0: a new one each run")

func first() uint64 {
	if *seed != 0 {
		return *seed
	}
	return 1 + rand.Uint64N(1<<40)
}

// Seed is for dice of a test that throws its own; it tells how to throw the same again.
func Seed(t *testing.T) uint64 {
	t.Helper()
	s := first()
	t.Logf("the same dice with: -run '^%s$' -seed %d", t.Name(), s)
	return s
}

// ForSeeds runs the property for n seeds in a row and tells which one failed; for a
// quarter of them without the variable POD2_LONG, since each run has seeds of its own.
func ForSeeds(t *testing.T, n uint64, property func(t *testing.T, dice *rand.Rand)) {
	t.Helper()
	if os.Getenv("POD2_LONG") == "" {
		n = (n + 3) / 4
	}
	first := first()
	t.Logf("seeds %d to %d", first, first+n-1)
	for i := range n {
		if property(t, rand.New(rand.NewPCG(first+i, 0))); t.Failed() {
			t.Fatalf("again with: -run '^%s$' -seed %d", t.Name(), first+i)
		}
	}
}

// Fuzz runs the property for what the fuzzer tries: each byte decides one throw,
// so that a change of one changes one decision. Seeds are random bytes, the same
// ones in every run.
func Fuzz(f *testing.F, property func(t *testing.T, dice *rand.Rand)) {
	f.Helper()
	for i := range uint64(8) {
		random, bytes := rand.NewPCG(i, 0), []byte(nil)
		for range 64 {
			bytes = binary.LittleEndian.AppendUint64(bytes, random.Uint64())
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { property(t, rand.New(&source{bytes, rand.NewPCG(0, 0)})) })
}

// source gives one byte a throw and, when they are used up, goes on by itself:
// loops that throw until they like it must end.
type source struct {
	bytes []byte
	then  *rand.PCG
}

func (s *source) Uint64() uint64 {
	if len(s.bytes) == 0 {
		return s.then.Uint64()
	}
	first := s.bytes[0]
	s.bytes = s.bytes[1:]
	// rand.IntN(n) takes the uppermost bits, and rejects the rare lowest ones.
	return uint64(first)<<56 | 1<<55 - 1
}

// Pick returns one of these.
func Pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// One is true once in so many times.
func One(dice *rand.Rand, in int) bool { return dice.IntN(in) == 0 }
