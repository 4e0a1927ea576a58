package addresses

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
)

// REST serves the Addresses of a cache, read-only.
type REST struct{ *Cache }

var (
	_ rest.Getter               = REST{}
	_ rest.Lister               = REST{}
	_ rest.Watcher              = REST{}
	_ rest.Scoper               = REST{}
	_ rest.ShortNamesProvider   = REST{}
	_ rest.SingularNameProvider = REST{}
	_ rest.TableConvertor       = REST{}
)

// resource is the resource in errors.
var resource = schema.GroupResource{Group: view.SchemeGroupVersion.Group, Resource: "addresses"}

// patience is how long a request waits for a version, as in kube-apiserver.
const patience = 3 * time.Second

// New returns an empty Address.
func (REST) New() runtime.Object { return &view.Address{} }

// NewList returns an empty AddressList.
func (REST) NewList() runtime.Object { return &view.AddressList{} }

// Destroy does nothing.
func (REST) Destroy() {}

// NamespaceScoped returns true.
func (REST) NamespaceScoped() bool { return true }

// GetSingularName returns "address".
func (REST) GetSingularName() string { return "address" }

// ShortNames returns "addr".
func (REST) ShortNames() []string { return []string{"addr"} }

// Get returns an Address.
func (r REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	if _, err := r.reach(ctx, options.ResourceVersion); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	namespace := request.NamespaceValue(ctx)
	if found := r.from(namespace, path(namespace, name)); len(found) > 0 && found[0].Namespace == namespace && found[0].Name == name {
		return shallow(found[0], found[0].ResourceVersion), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

// shallow copies the fields that the API server changes before it encodes an object.
func shallow(a *view.Address, resourceVersion string) *view.Address {
	b := *a
	b.ResourceVersion = resourceVersion
	return &b
}

// token is the content of a continue token.
type token struct {
	ResourceVersion string `json:"rv"`
	Start           string `json:"start"`
}

// List returns Addresses. Each page of a list shows the newest state that the replica has
// seen, with the version of the first page. So a watch from this version brings the changes
// between the pages, and any replica can serve the next page.
func (r REST) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	var page token
	from := options.ResourceVersion
	if options.Continue != "" {
		if from != "" && from != "0" {
			return nil, apierrors.NewBadRequest("resourceVersion cannot be combined with continue: the continue token has the version")
		}
		text, err := base64.RawURLEncoding.DecodeString(options.Continue)
		if err == nil {
			err = json.Unmarshal(text, &page)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("continue token %q is not one of Addresses: %v", options.Continue, err))
		}
		from = page.ResourceVersion
	}
	want, err := r.reach(ctx, from)
	if err != nil {
		return nil, err
	}
	matches := matcher(request.NamespaceValue(ctx), options)
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := &view.AddressList{Items: []view.Address{}}
	list.ResourceVersion = page.ResourceVersion
	if list.ResourceVersion == "" {
		list.ResourceVersion = r.at.max(want).String() // never older than the version that was asked for
	}
	if options.ResourceVersionMatch == metav1.ResourceVersionMatchExact && options.ResourceVersion != list.ResourceVersion {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is not the newest one: list without resourceVersionMatch=Exact", options.ResourceVersion))
	}
	namespace := request.NamespaceValue(ctx)
	for _, a := range r.from(namespace, page.Start) {
		if namespace != "" && a.Namespace != namespace {
			break
		}
		if !matches(a) {
			continue
		}
		if options.Limit > 0 && int64(len(list.Items)) == options.Limit {
			text, err := json.Marshal(token{list.ResourceVersion, path(a.Namespace, a.Name)})
			if err != nil {
				return nil, err
			}
			list.Continue = base64.RawURLEncoding.EncodeToString(text)
			break
		}
		list.Items = append(list.Items, *a)
	}
	return list, nil
}

// reach waits until the replica has seen a resourceVersion, and returns it. "" and "0" mean
// the newest version that the replica has seen.
func (r REST) reach(ctx context.Context, resourceVersion string) (want version, err error) {
	newest := resourceVersion == "" || resourceVersion == "0"
	if !newest {
		if want, err = parseVersion(resourceVersion); err != nil {
			return want, apierrors.NewBadRequest(err.Error())
		}
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.RLock()
		missing, seen, at, changed := r.missing(), r.seen, r.at, r.changed
		r.mu.RUnlock()
		behind := ""
		if len(missing) == 0 {
			if newest {
				return at, nil
			}
			behind = seen.behind(want)
			if behind == "" {
				return want, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return want, ctx.Err()
		case <-late.C:
			if len(missing) > 0 {
				return want, apierrors.NewServiceUnavailable("the server has not listed all " + strings.Join(missing, " and ") + " yet: try again")
			}
			err := apierrors.NewTimeoutError(fmt.Sprintf("this replica has not seen resourceVersion %s yet, because its %s are older: try again, or list without a resourceVersion", resourceVersion, behind), 1)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
			return want, err
		}
	}
}

// matcher returns whether an Address is in a namespace, and selected.
func matcher(namespace string, options *internalversion.ListOptions) func(*view.Address) bool {
	label, field := options.LabelSelector, options.FieldSelector
	var requirements fields.Requirements
	if field != nil {
		requirements = field.Requirements()
	}
	return func(a *view.Address) bool {
		if namespace != "" && a.Namespace != namespace || label != nil && !label.Matches(labels.Set(a.Labels)) {
			return false
		}
		for _, r := range requirements {
			if (fieldOf(a, r.Field) == r.Value) == (r.Operator == selection.NotEquals) {
				return false
			}
		}
		return true
	}
}

func fieldOf(a *view.Address, name string) string {
	switch name {
	case "metadata.name":
		return a.Name
	case "metadata.namespace":
		return a.Namespace
	}
	return view.Fields[name](a)
}
