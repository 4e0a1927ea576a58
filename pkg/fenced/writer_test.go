package fenced

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// asked is a client that records its last request.
type asked struct {
	text   string
	answer error
}

func (a *asked) Create(_ context.Context, n *v1.Network, _ metav1.CreateOptions) (*v1.Network, error) {
	a.text = "create " + n.Name
	return n, a.answer
}

func (a *asked) Patch(_ context.Context, name string, kind types.PatchType, body []byte, _ metav1.PatchOptions, sub ...string) (*v1.Network, error) {
	a.text = string(kind) + " " + name + " " + string(body)
	for _, s := range sub {
		a.text += " " + s
	}
	return nil, a.answer
}

func (a *asked) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	a.text = "delete " + name + " uid=" + string(*opts.Preconditions.UID)
	if v := opts.Preconditions.ResourceVersion; v != nil {
		a.text += " rv=" + *v
	}
	return a.answer
}

func (a *asked) Get(context.Context, string, metav1.GetOptions) (*v1.Network, error) {
	return nil, a.answer
}

func writer(answer error) (Writer[*v1.Network], *asked) {
	a := &asked{answer: answer}
	return New(types.StrategicMergePatchType, func(string) Client[*v1.Network] { return a }), a
}

func network() *v1.Network {
	return &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "uid-of-blue", ResourceVersion: "7"}}
}

func TestEveryWriteCarriesItsPrecondition(t *testing.T) {
	seen := network()
	seen.Finalizers = []string{"a"}
	seen.Status = v1.NetworkStatus{Gateway: "10.1.0.1", VNI: 5}
	counted := seen.DeepCopy()
	counted.Status.Bound, counted.Status.VNI = 2, 0
	for _, row := range []struct {
		name, want string
		write      func(Writer[*v1.Network]) error
	}{
		{"create", "create blue", func(w Writer[*v1.Network]) error { _, err := w.Create(t.Context(), seen); return err }},
		{"update names the difference", `application/merge-patch+json blue {"metadata":{"finalizers":null,"resourceVersion":"7","uid":"uid-of-blue"}}`,
			func(w Writer[*v1.Network]) error {
				wanted := seen.DeepCopy()
				wanted.Finalizers = nil
				_, err := w.Update(t.Context(), seen, wanted)
				return err
			}},
		// A field that was never written would be absent, where users expect 0.
		{"a status names all of its fields", `application/merge-patch+json blue {"metadata":{"resourceVersion":"7","uid":"uid-of-blue"},` +
			`"status":{"available":0,"bound":2,"capacity":0,"gateway":"10.1.0.1","reserved":0,"resting":0,"vni":null}} status`,
			func(w Writer[*v1.Network]) error { _, err := w.UpdateStatus(t.Context(), seen, counted); return err }},
		{"patch", `application/strategic-merge-patch+json blue {"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"uid-of-blue"},"spec":{"x":1}} resize`,
			func(w Writer[*v1.Network]) error {
				_, err := w.Patch(t.Context(), "default", AsSeen(seen), Fields{"labels": Fields{"a": "b"}}, Fields{"spec": Fields{"x": 1}}, "resize")
				return err
			}},
		{"patch of any version", `application/strategic-merge-patch+json blue {"metadata":{"uid":"uid-of-blue"}}`,
			func(w Writer[*v1.Network]) error {
				_, err := w.Patch(t.Context(), "default", Incarnation("blue", "uid-of-blue"), nil, nil)
				return err
			}},
		{"change", `application/json-patch+json blue [{"op":"add","path":"/metadata/annotations/a.b~1c~0d","value":"e"},{"op":"remove","path":"/spec/x/0"},` +
			`{"op":"replace","path":"/metadata/uid","value":"uid-of-blue"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"}]`,
			func(w Writer[*v1.Network]) error {
				_, err := w.Change(t.Context(), "default", AsSeen(seen), Annotate("a.b/c~d", "e"), Operation{Op: "remove", Path: "/spec/x/0"})
				return err
			}},
		{"delete", "delete blue uid=uid-of-blue rv=7", func(w Writer[*v1.Network]) error { return w.Delete(t.Context(), "default", AsSeen(seen), nil) }},
		{"an unknown version", "delete blue uid=uid-of-blue rv=unknown",
			func(w Writer[*v1.Network]) error {
				return w.Delete(t.Context(), "default", Version("blue", "uid-of-blue", ""), nil)
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, asked := writer(nil)
			if err := row.write(w); err != nil {
				t.Fatal(err)
			}
			if asked.text != row.want {
				t.Errorf("got  %s\nwant %s", asked.text, row.want)
			}
		})
	}
}

func TestWhichAnswersAreStale(t *testing.T) {
	resource, kind := schema.GroupResource{Resource: "networks"}, schema.GroupKind{Kind: "Network"}
	exists, conflict, gone := apierrors.NewAlreadyExists(resource, "blue"), apierrors.NewConflict(resource, "blue", nil), apierrors.NewNotFound(resource, "blue")
	other := apierrors.NewInvalid(kind, "blue", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "x", "field is immutable")})
	invalid := apierrors.NewInvalid(kind, "blue", field.ErrorList{field.Invalid(field.NewPath("spec", "cidr"), "x", "no CIDR")})
	inapplicable := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "missing path", 0, false)
	for _, row := range []struct {
		verb   string
		answer error
		want   string
	}{
		{"create", exists, "stale"}, {"create", conflict, "failed"}, {"create", gone, "failed"},
		{"patch", conflict, "stale"}, {"patch", gone, "stale"}, {"patch", other, "stale"}, {"patch", invalid, "failed"},
		{"change", conflict, "stale"}, {"change", gone, "stale"}, {"change", inapplicable, "stale"}, {"change", invalid, "failed"},
		{"delete", conflict, "stale"}, {"delete", gone, "done"}, {"delete", apierrors.NewForbidden(resource, "blue", nil), "failed"},
	} {
		w, _ := writer(row.answer)
		var err error
		switch row.verb {
		case "create":
			_, err = w.Create(t.Context(), network())
		case "patch":
			_, err = w.Patch(t.Context(), "default", AsSeen(network()), nil, nil)
		case "change":
			_, err = w.Change(t.Context(), "default", AsSeen(network()), Operation{Op: "remove", Path: "/spec/x/0"})
		case "delete":
			err = w.Delete(t.Context(), "default", AsSeen(network()), nil)
		}
		got := "failed"
		switch {
		case err == nil:
			got = "done"
		case errors.Is(err, ErrStale):
			got = "stale"
		}
		if got != row.want {
			t.Errorf("%s answered %v: %s, want %s", row.verb, row.answer, got, row.want)
		}
	}
}

// BenchmarkBlock measures the cost of writing a full AddressBlock in two ways: Update
// compares all 256 entries, Patch only encodes them.
func BenchmarkBlock(b *testing.B) {
	block := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-10.0.0.0", UID: "u", ResourceVersion: "7"}}
	for range 256 {
		block.Spec.Entries = append(block.Spec.Entries, v1.AddressEntry{Address: "10.0.0.200", Pod: "web-200", PodUID: "01234567-89ab-cdef-0123-456789abcdef", State: v1.AddressBound})
	}
	wanted := block.DeepCopy()
	wanted.Spec.Entries[9].Pod = "web-201"
	w := New(types.MergePatchType, func(string) Client[*v1.AddressBlock] { return nothing{} })
	b.Run("update", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.Update(b.Context(), block, wanted); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("patch", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.Patch(b.Context(), "default", AsSeen(block), nil, Fields{"spec": Fields{"entries": wanted.Spec.Entries}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type nothing struct{ Client[*v1.AddressBlock] }

func (nothing) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.AddressBlock, error) {
	return nil, nil
}

// A caller that names a precondition among the fields, or that has none, must not get past it.
func TestNoWriteEvadesItsPrecondition(t *testing.T) {
	bare := &v1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	wanted := bare.DeepCopy()
	wanted.Spec.MTU = ptr.To[int32](1400)
	const refused = `{"metadata":{"resourceVersion":"unknown","uid":"unknown"}`
	for _, row := range []struct {
		name  string
		write func(Writer[*v1.Network]) error
		want  string
	}{
		{"fields beside the fence", func(w Writer[*v1.Network]) error {
			_, err := w.Patch(t.Context(), "default", AsSeen(network()), Fields{"uid": "other", "resourceVersion": nil}, nil)
			return err
		}, `application/strategic-merge-patch+json blue {"metadata":{"resourceVersion":"7","uid":"uid-of-blue"}}`},
		{"an operation on the precondition", func(w Writer[*v1.Network]) error {
			_, err := w.Change(t.Context(), "default", Incarnation("blue", "uid-of-blue"), Operation{Op: "remove", Path: "/metadata/uid"})
			return err
		}, `application/json-patch+json blue [{"op":"remove","path":"/metadata/uid"},{"op":"replace","path":"/metadata/uid","value":"uid-of-blue"},{"op":"replace","path":"/metadata/resourceVersion","value":"unknown"}]`},
		{"an update of an object without UID and version", func(w Writer[*v1.Network]) error {
			_, err := w.Update(t.Context(), bare, wanted)
			return err
		}, `application/merge-patch+json blue ` + refused + `,"spec":{"mtu":1400}}`},
		{"a patch of an object without UID", func(w Writer[*v1.Network]) error {
			_, err := w.Patch(t.Context(), "default", Incarnation("blue", ""), nil, nil)
			return err
		}, `application/strategic-merge-patch+json blue {"metadata":{"uid":"unknown"}}`},
		{"a deletion of an object without UID", func(w Writer[*v1.Network]) error {
			return w.Delete(t.Context(), "default", Incarnation("blue", ""), nil)
		}, "delete blue uid=unknown"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, a := writer(nil)
			if err := row.write(w); err != nil || a.text != row.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, a.text, row.want)
			}
		})
	}
	w, a := writer(nil)
	for verb, create := range map[string]func(context.Context, *v1.Network) (*v1.Network, error){"create": w.Create, "dry run": w.DryRun} {
		if _, err := create(t.Context(), &v1.Network{ObjectMeta: metav1.ObjectMeta{GenerateName: "blue-"}}); err == nil || a.text != "" {
			t.Errorf("a %s without a name: %v, %s", verb, err, a.text)
		}
	}
}

// An object in a status loses the fields that the wanted one lacks.
func TestAnObjectInAStatusIsReplaced(t *testing.T) {
	var was, is Fields
	for text, fields := range map[string]*Fields{
		`{"injected":{"spec":{"a":1,"b":2}},"ready":0}`: &was, `{"injected":{"spec":{"b":2,"c":3}},"ready":1}`: &is,
	} {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			t.Fatal(err)
		}
		*fields = Fields{}
		for name, value := range raw {
			(*fields)[name] = value
		}
	}
	patch, err := statusPatch(was, is)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(patch)
	if want := `{"injected":{"spec":{"a":null,"c":3}},"ready":1}`; err != nil || string(text) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, text, want)
	}
}
