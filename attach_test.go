package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/pkg/sim"
)

const definitions = "network-attachment-definitions"

// Multus is installed after us, removed, and installed again; the controller runs on.
func TestMultusComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program, nil, nil)
		defer w.Close()
		w.Watch(sim.NewPromises())
		w.Unserve(definitions)
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}")
		w.Start("it", nil)
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "network blue: 0 bound, finalizers [samplecrd.k8s.io/in-use], observed true, Attachable False, Exhausted False, Ready True"},
			{func() { w.Serve(definitions) }, "definition blue: of Network blue, of its Network's bridge true"},
			{func() { w.Unserve(definitions) }, "network blue: 0 bound, finalizers [samplecrd.k8s.io/in-use], observed true, Attachable False, Exhausted False, Ready True"},
			{func() { w.Serve(definitions) }, "definition blue: of Network blue, of its Network's bridge true"},
		} {
			step.do()
			time.Sleep(sim.Settle)
			if got := w.Essence(); !strings.Contains(got, step.want) {
				t.Errorf("got\n%s\nwant\n%s\n%s", got, step.want, w.Trace())
			}
		}
		for _, fault := range w.Faults() {
			t.Error(fault)
		}
	})
}
