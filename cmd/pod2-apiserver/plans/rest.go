// Package plans serves Pod2Plans.
package plans

import (
	"context"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

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
	namespace := request.NamespaceValue(ctx)
	wanted, invalid := read(plan.Spec.Pod2.Raw, namespace)
	if invalid != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: view.SchemeGroupVersion.Group, Kind: "Pod2Plan"}, plan.Name, field.ErrorList{invalid})
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("other Pod2Plans are computed", 1)
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
	answer := plan.DeepCopy()
	answer.Status = view.Pod2PlanStatus{Actions: actions(state)}
	return answer, nil
}

// read reads the Pod2, and sets its defaults.
func read(raw []byte, namespace string) (*v1.Pod2, *field.Error) {
	at, p := field.NewPath("spec", "pod2"), &v1.Pod2{}
	if err := yaml.UnmarshalStrict(raw, p); err != nil {
		return nil, field.Invalid(at, "", err.Error())
	}
	switch {
	case p.Kind != "Pod2" || p.APIVersion != v1.GroupVersion.String():
		return nil, field.NotSupported(at.Child("kind"), p.APIVersion+" "+p.Kind, []string{v1.GroupVersion.String() + " Pod2"})
	case p.Name == "":
		return nil, field.Required(at.Child("metadata", "name"), "name the Pod2")
	case p.Namespace != "" && p.Namespace != namespace:
		return nil, field.Invalid(at.Child("metadata", "namespace"), p.Namespace, "must be the namespace of the Pod2Plan")
	}
	// The bounds of the CRD, which the API server would check.
	spec := at.Child("spec")
	if n := ptr.Deref(p.Spec.Replicas, 1); n < 0 || n > 100_000 {
		return nil, field.Invalid(spec.Child("replicas"), n, "must be from 0 to 100000")
	}
	if n := len(p.Spec.ReserveOrdinals); n > 1024 {
		return nil, field.TooMany(spec.Child("reserveOrdinals"), n, 1024)
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
