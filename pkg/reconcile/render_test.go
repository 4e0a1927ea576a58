package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// render writes a call with its preconditions:
//
//	create pods web-0
//	patch networks/status blue uid=uid-of-blue rv=101
//	patch pods web-0 uid=uid-of-web-0 rv=102
//	delete addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=103
//	list pods limit=500
func render(action clienttesting.Action) string {
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	var name string
	var rest []string
	with := func(key, value string) {
		if value != "" {
			rest = append(rest, key+"="+value)
		}
	}
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		name = object(a.Object).GetName()
	case clienttesting.UpdateActionImpl:
		name = object(a.Object).GetName()
	case clienttesting.PatchActionImpl:
		name = a.Name
		uid, version := preconditions(a.Patch)
		with("uid", uid)
		with("rv", version)
	case clienttesting.DeleteActionImpl:
		name = a.Name
		if p := a.DeleteOptions.Preconditions; p != nil {
			if p.UID != nil {
				with("uid", string(*p.UID))
			}
			if p.ResourceVersion != nil {
				with("rv", *p.ResourceVersion)
			}
		}
		if a.DeleteOptions.PropagationPolicy != nil {
			with("propagation", string(*a.DeleteOptions.PropagationPolicy))
		}
	case clienttesting.GetActionImpl: // a quorum read has no rv
		name = a.Name
		with("rv", a.GetOptions.ResourceVersion)
	case clienttesting.ListActionImpl:
		with("limit", fmt.Sprint(a.ListOptions.Limit))
		with("continue", a.ListOptions.Continue)
		with("rv", a.ListOptions.ResourceVersion)
		with("selector", a.ListOptions.LabelSelector+a.ListOptions.FieldSelector)
	}
	words := append([]string{action.GetVerb(), resource, name}, rest...)
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// onlyWrites are the calls that are neither reads nor events.
func onlyWrites(calls string) string {
	var lines []string
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "get ") && !strings.HasPrefix(line, "list ") && !strings.HasPrefix(line, "event ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// withoutEvents are the calls alone.
func withoutEvents(calls string) string {
	var lines []string
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "event ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// withVersion puts the resourceVersion into a patch that the object is to have.
func withVersion(patch []byte, version string) []byte {
	var body map[string]any
	if err := json.Unmarshal(patch, &body); err != nil {
		panic(err)
	}
	metadata, ok := body["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		body["metadata"] = metadata
	}
	metadata["resourceVersion"] = version
	patched, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return patched
}

// same compares rendered texts.
func same(t *testing.T, got, want string) {
	t.Helper()
	if got, want := strings.TrimSpace(got), strings.TrimSpace(want); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// refusing answers calls that begin so with an error; "" refuses none.
func refusing(prefix string, err error) func(string) error {
	return func(call string) error {
		if prefix != "" && strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	}
}

func deepCopy(objects []runtime.Object) []runtime.Object {
	copies := make([]runtime.Object, 0, len(objects))
	for _, obj := range objects {
		copies = append(copies, obj.DeepCopyObject())
	}
	return copies
}
