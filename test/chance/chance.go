// Package chance generates the inputs of property tests, from a seed or from the bytes of a
// fuzzer.
package chance

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
)

var seed = flag.Uint64("seed", 0, "seed of the random numbers, and of the first state of each property; 0 takes a new seed each run")

func first() uint64 {
	if *seed != 0 {
		return *seed
	}
	return 1 + rand.Uint64N(1<<40)
}

// Seed is for a test that makes its own random numbers. It logs how to repeat them.
func Seed(t *testing.T) uint64 {
	t.Helper()
	s := first()
	t.Logf("to repeat these random numbers, run with: -run '^%s$' -seed %d", t.Name(), s)
	return s
}

// ForSeeds runs the property for n consecutive seeds, and reports the seed that failed.
// Without the variable POD2_LONG it runs a quarter of them: each run has new seeds anyway.
func ForSeeds(t *testing.T, n uint64, property func(t *testing.T, dice *rand.Rand)) {
	t.Helper()
	if os.Getenv("POD2_LONG") == "" {
		n = (n + 3) / 4
	}
	first := first()
	t.Logf("seeds %d to %d", first, first+n-1)
	now := first
	defer func() { // a property that calls t.Fatal does not return
		if t.Failed() {
			t.Logf("to repeat this failure, run with: -run '^%s$' -seed %d", t.Name(), now)
		}
	}()
	for i := range n {
		now = first + i
		if property(t, rand.New(rand.NewPCG(now, 0))); t.Failed() {
			return
		}
	}
}

// Fuzz runs the property for the fuzzer's bytes. Each byte decides one random number, so
// changing one byte changes one decision. The seed inputs are random bytes, the same in
// every run.
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

// source uses one byte for each random number. When the bytes are used up it continues
// without them: a loop that draws until a number fits must end.
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
	// rand.IntN(n) takes the uppermost bits, and rejects the rare lowest values.
	return uint64(first)<<56 | 1<<55 - 1
}

// Pick returns one of the arguments.
func Pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// One is true with a probability of 1 to in.
func One(dice *rand.Rand, in int) bool { return dice.IntN(in) == 0 }
