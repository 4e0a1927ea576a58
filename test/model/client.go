package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// call is one call of the API.
type call struct {
	verb     string // create, patch, delete, get, list
	kind     Kind
	status   bool // to the subresource status
	name     string
	body     []byte // an object, or a patch
	patch    types.PatchType
	uid      string // preconditions of a deletion
	version  string
	selector string // of a list

	// The contents of the body, read once.
	value       metav1.Object // of a create
	bodyUID     string
	bodyVersion string
}

// read reads the body.
func (c *call) read() {
	if len(c.body) == 0 {
		return
	}
	if c.verb == "patch" {
		meta, err := apiserver.PatchMetadata(c.body)
		if err != nil {
			panic(err)
		}
		c.bodyUID, c.bodyVersion = string(meta.UID), meta.ResourceVersion
		return
	}
	c.value = decoded(c.kind, c.body)
	c.bodyUID, c.bodyVersion = string(c.value.GetUID()), c.value.GetResourceVersion()
}

func (c *call) writes() bool { return c.verb != "get" && c.verb != "list" }

// brief returns the call without its numbers.
func (c *call) brief() string {
	text := c.verb + " " + c.kind.String()
	if c.status {
		text += "/status"
	}
	if c.name != "" {
		text += " " + c.name
	}
	return text
}

func (c *call) String() string {
	text := c.brief()
	if c.uid != "" {
		text += " uid=" + c.uid
	}
	if c.version != "" {
		text += " rv=" + c.version
	}
	if c.selector != "" {
		text += " " + c.selector
	}
	return text
}

func (c *call) preconditions() *metav1.Preconditions {
	p := &metav1.Preconditions{}
	if c.uid != "" {
		p.UID = ptr.To(types.UID(c.uid))
	}
	if c.version != "" {
		p.ResourceVersion = &c.version
	}
	return p
}

var errPending = errors.New("this call has no answer yet")

// client answers the calls of one sync in order, as long as there are answers. The first
// call without an answer is the sync's next call; later calls do not count.
type client struct {
	answers []answer
	calls   int
	pending *call
}

func (c *client) do(next call) (answer, error) {
	if c.pending != nil {
		return answer{}, errPending
	}
	if c.calls == len(c.answers) {
		next.read()
		c.pending = &next
		return answer{}, errPending
	}
	a := c.answers[c.calls]
	if a.to != next.brief() {
		panic(fmt.Sprintf("the sync is not a function of its view and the answers: call %d was %s, and is %s", c.calls, a.to, next.brief()))
	}
	c.calls++
	return a, a.err.as(next)
}

func (f failure) as(c call) error {
	resource := schema.GroupResource{Resource: c.kind.String()}
	switch f {
	case none:
		return nil
	case notFound:
		return apierrors.NewNotFound(resource, c.name)
	case conflict:
		return apierrors.NewConflict(resource, c.name, errors.New("a precondition is not met"))
	case alreadyExists:
		return apierrors.NewAlreadyExists(resource, c.name)
	case otherUID:
		path := field.NewPath("metadata", "uid")
		return apierrors.NewInvalid(schema.GroupKind{Kind: c.kind.String()}, c.name, field.ErrorList{field.Invalid(path, c.uid, "field is immutable")})
	case invalid:
		return apierrors.NewInvalid(schema.GroupKind{Kind: c.kind.String()}, c.name, nil)
	case inapplicable:
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)
	case timeout:
		return apierrors.NewTimeoutError("the answer is lost", 1)
	}
	panic(fmt.Sprintf("no failure %d", f))
}

// typed has the calls that the typed clients of all kinds share.
type typed[T metav1.Object] struct {
	client *client
	kind   Kind
}

func (t typed[T]) one(c call) (T, error) {
	var zero T
	c.kind = t.kind
	a, err := t.client.do(c)
	if err != nil {
		return zero, err
	}
	return a.objects[0].value.(T), nil
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

func (t typed[T]) Create(_ context.Context, obj T, _ metav1.CreateOptions) (T, error) {
	return t.one(call{verb: "create", name: obj.GetName(), body: encoded(obj)})
}

func (t typed[T]) Get(_ context.Context, name string, _ metav1.GetOptions) (T, error) {
	return t.one(call{verb: "get", name: name})
}

func (t typed[T]) Patch(_ context.Context, name string, kind types.PatchType, body []byte, _ metav1.PatchOptions, sub ...string) (T, error) {
	return t.one(call{verb: "patch", name: name, status: len(sub) > 0, patch: kind, body: body})
}

func (t typed[T]) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	c := call{verb: "delete", kind: t.kind, name: name}
	if p := opts.Preconditions; p != nil {
		if p.UID != nil {
			c.uid = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			c.version = *p.ResourceVersion
		}
	}
	_, err := t.client.do(c)
	return err
}

func list[T any](client *client, kind Kind, opts metav1.ListOptions) ([]T, error) {
	a, err := client.do(call{verb: "list", kind: kind, selector: opts.LabelSelector})
	if err != nil {
		return nil, err
	}
	items := make([]T, 0, len(a.objects))
	for _, o := range a.objects {
		items = append(items, *o.value.(any).(*T))
	}
	return items, nil
}
