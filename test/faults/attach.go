package faults

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/test/sim"
)

const definitions = "network-attachment-definitions"

// MultusComesAndGoes installs Multus after Pod2, removes it, and installs it again. The
// controller keeps running.
func (program Program) MultusComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Watch(sim.NewPromises())
		w.Unserve(definitions)
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}")
		w.Start("it", nil)
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "network blue: 0 bound, finalizers [samplecrd.k8s.io/in-use], observed true, AddressesAvailable True, Attachable False, Ready True"},
			{func() { w.Serve(definitions) }, "definition blue: of Network blue, for its Network true"},
			{func() { w.Unserve(definitions) }, "network blue: 0 bound, finalizers [samplecrd.k8s.io/in-use], observed true, AddressesAvailable True, Attachable False, Ready True"},
			{func() { w.Serve(definitions) }, "definition blue: of Network blue, for its Network true"},
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

// AForeignDefinitionIsNotTriedAgain creates a NetworkAttachmentDefinition with a Network's
// name. The controller did not create it: it reports it once, and does not write to it.
func (program Program) AForeignDefinitionIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Create("apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: red}\nspec: {config: \"{}\"}",
			"apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: red}\nspec: {cidr: 10.0.0.0/24}")
		w.Start("it", nil)
		time.Sleep(sim.Settle)
		w.Expect("networks/red", "NetworkAttachmentDefinition red exists but does not belong to this Network")
		before := w.AllWrites()
		time.Sleep(silence)
		if n := w.AllWrites() - before; n > 0 {
			t.Errorf("%d writes in the %s after the report\n%s", n, silence, w.Trace())
		}
		w.Delete(definitions, "red", "")
		time.Sleep(time.Second)
		if want := "definition red: of Network red, for its Network true"; !strings.Contains(w.Essence(), want) {
			t.Errorf("a second after the deletion\n%s\nwant\n%s", w.Essence(), want)
		}
		for _, fault := range w.Faults() {
			t.Error(fault)
		}
	})
}

// TheTwoSyncsOfANetworkDoNotConflict tests that the sync of a Network and that of its attachment
// change its status without a conflict.
func (program Program) TheTwoSyncsOfANetworkDoNotConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		it := w.Start("it", nil)
		time.Sleep(sim.Settle)
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}")
		time.Sleep(sim.Settle)
		w.Patch("networks", "blue", `{"spec":{"mtu":1400}}`)
		time.Sleep(sim.Settle)
		if n := it.Stale().Refused; n > 0 {
			t.Errorf("%d conflicts\n%s", n, w.Trace())
		}
	})
}
