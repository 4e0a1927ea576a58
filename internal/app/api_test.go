package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/journal"
)

// apiServer answers with the resources that it serves at its age.
type apiServer func(age time.Duration) (resources string, err error)

func (s apiServer) since(start time.Time) discoveryFunc {
	return func(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		resources, err := s(time.Since(start))
		if err != nil {
			return nil, err
		}
		list := &metav1.APIResourceList{}
		for name := range strings.FieldsSeq(resources) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		return list, nil
	}
}

type discoveryFunc func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)

func (f discoveryFunc) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	return f(ctx, groupVersion)
}

func TestWaitForAPI(t *testing.T) {
	absent := apierrors.NewNotFound(samplecrdv1.Resource(""), "")
	for _, test := range []struct {
		name   string
		server apiServer
		want   string
	}{
		{"is there", func(time.Duration) (string, error) {
			return "networks networks/status pod2s addressblocks addresshistories addressslices sidecars vnis crontabs", nil
		}, "0s: <nil>"},
		{"comes up: refuses, then lacks the CRDs, then has some, then all", func(age time.Duration) (string, error) {
			switch {
			case age < 5*time.Second:
				return "", errors.New("connection refused")
			case age < 10*time.Second:
				return "", absent
			case age < 15*time.Second:
				return "networks crontabs", nil
			}
			return "addressblocks addresshistories addressslices networks pod2s sidecars vnis crontabs", nil
		}, "16s: <nil>"},
		{"never has the CRDs", func(time.Duration) (string, error) { return "", absent },
			"1m0s: gave up after 1m0s: the cluster does not serve addressblocks, addresshistories, addressslices, networks, pod2s, sidecars, vnis of samplecrd.k8s.io/v1: apply crd/ first: kubectl apply -f crd/"},
		{"never has one of them", func(time.Duration) (string, error) {
			return "addressblocks addresshistories addressslices networks sidecars vnis", nil
		},
			"1m0s: gave up after 1m0s: the cluster does not serve pod2s of samplecrd.k8s.io/v1: apply crd/ first: kubectl apply -f crd/"},
		{"never has those of the other group", func(time.Duration) (string, error) {
			return "addressblocks addresshistories addressslices networks pod2s sidecars vnis", nil
		},
			"1m0s: gave up after 1m0s: the cluster does not serve crontabs of stable.example.com/v1: apply crd/ first: kubectl apply -f crd/"},
		{"never answers", func(time.Duration) (string, error) { return "", errors.New("connection refused") },
			"1m0s: gave up after 1m0s: ask the API server for the resources of samplecrd.k8s.io/v1: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := WaitForAPI(t.Context(), test.server.since(start))
				if got := fmt.Sprintf("%s: %v", time.Since(start), err); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			})
		})
	}
}

func TestServes(t *testing.T) {
	for _, test := range []struct {
		name, resources string
		err             error
		want            string
	}{
		{"Kubernetes 1.33", "ingresses servicecidrs networkpolicies", nil, "true, <nil>"},
		{"older", "ingresses networkpolicies", nil, "false, <nil>: set --cluster-cidrs"},
		{"without the group", "", apierrors.NewNotFound(samplecrdv1.Resource(""), ""), "false, <nil>: set --cluster-cidrs"},
		{"does not answer", "", errors.New("connection refused"),
			"false, ask the API server for the resources of networking.k8s.io/v1: connection refused"},
	} {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		server := apiServer(func(time.Duration) (string, error) { return test.resources, test.err })
		served, err := Serves(klog.NewContext(t.Context(), logger), server.since(time.Now()), ServiceCIDRs)
		got := fmt.Sprintf("%t, %v", served, err)
		if strings.Contains(logger.GetSink().(ktesting.Underlier).GetBuffer().String(), "set --cluster-cidrs") {
			got += ": set --cluster-cidrs"
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// The error reports the problem, not that the time ended during a request.
func TestWaitForAPIThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := false
		err := WaitForAPI(t.Context(), discoveryFunc(func(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
			if asked {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			asked = true
			return nil, apierrors.NewNotFound(samplecrdv1.Resource(""), "")
		}))
		if err == nil || !strings.Contains(err.Error(), "kubectl apply -f crd/") {
			t.Errorf("WaitForAPI: %v", err)
		}
	})
}

func TestStopWhileWaitingForTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		log := journal.New()
		refused := apiServer(func(time.Duration) (string, error) { return "", errors.New("connection refused") })
		log.Note("%v", WaitForAPI(ctx, refused.since(time.Now())))
		log.Expect(t, "7s context deadline exceeded")
	})
}
