package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// A start waits apiWait for the API server and our CRDs, which may come up soon. Then it
// fails, because a failure is visible and waiting is not.
const (
	apiWait = time.Minute
	apiPoll = 2 * time.Second
)

// resourceLister is the part of a discovery client that WaitForAPI needs.
type resourceLister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// WaitForAPI returns nil when the API server serves our resources, or the problem after
// apiWait. It logs every problem once.
func WaitForAPI(ctx context.Context, server resourceLister) error {
	logger := klog.FromContext(ctx)
	var problem error
	err := wait.PollUntilContextTimeout(ctx, apiPoll, apiWait, true, func(ctx context.Context) (bool, error) {
		found := checkAPI(ctx, server)
		// If the time ends during a request, that is not the problem to report.
		known := problem != nil && found != nil && (ctx.Err() != nil || found.Error() == problem.Error())
		if !known {
			problem = found
			if found != nil {
				logger.Info("Waiting for the API", "reason", found, "atMost", apiWait)
			}
		}
		return problem == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("gave up after %s: %w", apiWait, problem)
}

// Optional is a resource that Pod2 uses if the cluster serves it.
type Optional struct {
	schema.GroupVersion
	Resource string
	// Since is the first version of Kubernetes that serves it by default. Without says which features need
	// it, and how to do without.
	Since, Without string
}

// Optional resources.
var (
	ServiceCIDRs = Optional{networkingv1.SchemeGroupVersion, "servicecidrs", "1.33",
		"the controller does not know the addresses of Services: set --cluster-cidrs"}
	MutatingPolicies = Optional{admissionv1.SchemeGroupVersion, "mutatingadmissionpolicies", "1.36",
		"Sidecars have no effect, and a pod template with the annotation " + samplecrdv1.NetworksAnnotation + " needs the label and the gate: see docs/reference/compatibility.md"}
)

// Serves says whether the cluster has the resource. If not, the log names the features that need it.
func Serves(ctx context.Context, server resourceLister, o Optional) (bool, error) {
	list, err := server.ServerResourcesForGroupVersionWithContext(ctx, o.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("ask the API server for the resources of %s: %w", o.GroupVersion, err)
	}
	served := err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == o.Resource })
	if !served {
		klog.FromContext(ctx).Info("The cluster does not serve a resource", "resource", o.Resource, "groupVersion", o.String(), "servedSince", o.Since, "without", o.Without)
	}
	return served, nil
}

// served are the resources that we watch, by group and version.
var served = []struct{ groupVersion, resources string }{
	{samplecrdv1.GroupVersion.String(), "addressblocks addresshistories addressslices networks pod2s sidecars vnis"},
	{stablev1.GroupVersion.String(), "crontabs"},
}

func checkAPI(ctx context.Context, server resourceLister) error {
	for _, s := range served {
		missing := strings.Fields(s.resources)
		list, err := server.ServerResourcesForGroupVersionWithContext(ctx, s.groupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("ask the API server for the resources of %s: %w", s.groupVersion, err)
		}
		if err == nil {
			missing = slices.DeleteFunc(missing, func(name string) bool {
				return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
			})
		}
		if len(missing) > 0 {
			return errors.New("the cluster does not serve " + strings.Join(missing, ", ") + " of " + s.groupVersion +
				": apply crd/ first: kubectl apply -f crd/")
		}
	}
	return nil
}
