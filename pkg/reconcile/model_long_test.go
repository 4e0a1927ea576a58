//go:build long

package reconcile

import (
	"strings"
	"testing"

	"github.com/pod2/pod2/test/model"
)

// The search visits every state of these configurations too. That takes minutes.
func TestLargeModel(t *testing.T) {
	oneAtOnce(t)
	for _, config := range model.Large() {
		t.Run(config.Name, func(t *testing.T) {
			if r := search(config, 0); r.Violation != "" {
				t.Errorf("%s\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			}
		})
	}
}
