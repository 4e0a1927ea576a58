package measure

import (
	"testing"
	"time"
)

func TestSpeedIsThatOfTheWorkSince(t *testing.T) {
	s := &Speed{total: Work{Pieces: 3, CPU: 6 * time.Millisecond}}
	before := s.Now()
	s.total = Work{Pieces: 5, CPU: 7 * time.Millisecond}
	if got := s.Since(t.Context(), before); got != 0.5 {
		t.Errorf("%g ms for a piece, want 0.5", got)
	}
}

func TestSpeedIsMeasuredWhileOthersWork(t *testing.T) {
	if got := WatchSpeed(t.Context()).Since(t.Context(), Work{}); got <= 0 || got > 100 {
		t.Errorf("a piece took %g ms of CPU", got)
	}
}
