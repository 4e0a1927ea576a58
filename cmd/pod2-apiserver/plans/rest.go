// Package plans serves Pod2Plans.
package plans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
	"github.com/pod2/pod2/pkg/reconcile"
)

// REST answers Pod2Plans. It reads with the rights of the server, so the right to create
// Pod2Plans in a namespace includes the names of its pods, PersistentVolumeClaims and
// addresses.
type REST struct {
	reconcile.Clients
	// turn lets one plan run at a time: a large one needs much memory.
	turn chan struct{}
}

var (
	_ rest.Creater              = REST{} //nolint:misspell // a name of k8s.io/apiserver
	_ rest.Scoper               = REST{}
	_ rest.SingularNameProvider = REST{}
)

// New returns the storage of Pod2Plans.
func New(clients reconcile.Clients) REST { return REST{clients, make(chan struct{}, 1)} }

// New returns an empty Pod2Plan.
func (REST) New() runtime.Object { return &view.Pod2Plan{} }

// Destroy does nothing.
func (REST) Destroy() {}

// NamespaceScoped returns true.
func (REST) NamespaceScoped() bool { return true }

// GetSingularName returns "pod2plan".
func (REST) GetSingularName() string { return "pod2plan" }

// Create answers a Pod2Plan.
func (r REST) Create(ctx context.Context, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	plan, ok := object.(*view.Pod2Plan)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the request has a %T, want a Pod2Plan", object))
	}
	if validate != nil {
		if err := validate(ctx, object); err != nil {
			return nil, err
		}
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("other Pod2Plans are computed", 1)
	}
	if err := inTime(ctx); err != nil {
		return nil, err
	}
	namespace := request.NamespaceValue(ctx)
	wanted, invalid := read(ctx, plan.Spec.Pod2.Raw, namespace)
	if len(invalid) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: view.SchemeGroupVersion.Group, Kind: "Pod2Plan"}, plan.Name, invalid)
	}
	now := time.Now()
	present, err := reconcile.Get(ctx, "Pod2", r.Sample.SamplecrdV1().Pod2s(namespace), namespace, wanted.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		present = nil
	}
	state, err := reconcile.Look(ctx, r.Clients, now, applied(present, wanted, now), nil)
	if err != nil {
		return nil, err
	}
	if err := inTime(ctx); err != nil {
		return nil, err
	}
	answer := plan.DeepCopy()
	answer.Status = view.Pod2PlanStatus{Actions: actions(state)}
	return answer, nil
}

// inTime returns an error if nobody waits for the answer any more. The functions that
// compute it cannot be interrupted.
func inTime(ctx context.Context) error {
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError("the request ended before its Pod2Plan was computed", 1)
	}
	return nil
}

// read reads and checks the Pod2, and sets its defaults.
func read(ctx context.Context, raw []byte, namespace string) (*v1.Pod2, field.ErrorList) {
	at, p := field.NewPath("spec", "pod2"), &v1.Pod2{}
	if len(raw) > mostBytes {
		return nil, field.ErrorList{field.TooLong(at, "", mostBytes)}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	switch {
	case p.Kind != "Pod2" || p.APIVersion != v1.GroupVersion.String():
		return nil, field.ErrorList{field.NotSupported(at.Child("kind"), p.APIVersion+" "+p.Kind, []string{v1.GroupVersion.String() + " Pod2"})}
	case p.Name == "":
		return nil, field.ErrorList{field.Required(at.Child("metadata", "name"), "name the Pod2")}
	case p.Namespace != "" && p.Namespace != namespace:
		return nil, field.ErrorList{field.Invalid(at.Child("metadata", "namespace"), p.Namespace, "must be the namespace of the Pod2Plan")}
	}
	if errs := check(ctx, at, p); len(errs) > 0 {
		return nil, errs
	}
	p.Namespace = namespace
	v1.SetObjectDefaults_Pod2(p)
	return p, nil
}

// applied is the Pod2 as the API server would store it. Labels and annotations of others stay.
func applied(present, wanted *v1.Pod2, now time.Time) *v1.Pod2 {
	p := &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name, UID: "planned", CreationTimestamp: metav1.NewTime(now)}}
	if present != nil {
		p = present.DeepCopy()
	}
	if !equality.Semantic.DeepEqual(p.Spec, wanted.Spec) {
		p.Generation++
	}
	p.Spec = wanted.Spec
	for key, value := range wanted.Labels {
		metav1.SetMetaDataLabel(&p.ObjectMeta, key, value)
	}
	for key, value := range wanted.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	return p
}

// actions are the lines of `kubectl pod2 plan`. Events are left out: they repeat the
// conditions.
func actions(state reconcile.View) []string {
	plan, names := pod2.Diff(state.Pod2), dns.Diff(state.DNS)
	plan.RequeueAfter, names.Events = 0, nil
	if plan.Empty() && names.Empty() {
		return nil
	}
	return strings.Split(strings.TrimSuffix(plan.String()+names.String(), "\n"), "\n")
}
