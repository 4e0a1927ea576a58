package model

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	sampleclient "github.com/pod2/pod2/pkg/client/clientset/versioned/typed/samplecrd/v1"
)

// No code may call the other methods of the interfaces. They are embedded one level deeper
// as nil, and panic.
type (
	networksRest struct{ sampleclient.NetworkInterface }
	blocksRest   struct {
		sampleclient.AddressBlockInterface
	}
	pod2sRest     struct{ sampleclient.Pod2Interface }
	historiesRest struct {
		sampleclient.AddressHistoryInterface
	}
	podsRest      struct{ coreclient.PodInterface }
	revisionsRest struct {
		appsclient.ControllerRevisionInterface
	}
	sampleRest struct {
		sampleclient.SamplecrdV1Interface
	}
	coreRest struct{ coreclient.CoreV1Interface }
	appsRest struct{ appsclient.AppsV1Interface }
)

type networksClient struct {
	typed[*v1.Network]
	networksRest
}

type blocksClient struct {
	typed[*v1.AddressBlock]
	blocksRest
}

func (c blocksClient) List(_ context.Context, opts metav1.ListOptions) (*v1.AddressBlockList, error) {
	items, err := list[v1.AddressBlock](c.client, Blocks, opts)
	return &v1.AddressBlockList{Items: items}, err
}

type pod2sClient struct {
	typed[*v1.Pod2]
	pod2sRest
}

type historiesClient struct {
	typed[*v1.AddressHistory]
	historiesRest
}

type podsClient struct {
	typed[*corev1.Pod]
	podsRest
}

func (c podsClient) List(_ context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	items, err := list[corev1.Pod](c.client, Pods, opts)
	return &corev1.PodList{Items: items}, err
}

type revisionsClient struct {
	typed[*appsv1.ControllerRevision]
	revisionsRest
}

type sampleGroup struct {
	client *client
	sampleRest
}

func (g sampleGroup) Networks(string) sampleclient.NetworkInterface {
	return networksClient{typed: typed[*v1.Network]{g.client, Networks}}
}

func (g sampleGroup) AddressBlocks(string) sampleclient.AddressBlockInterface {
	return blocksClient{typed: typed[*v1.AddressBlock]{g.client, Blocks}}
}

func (g sampleGroup) Pod2s(string) sampleclient.Pod2Interface {
	return pod2sClient{typed: typed[*v1.Pod2]{g.client, Pod2s}}
}

func (g sampleGroup) AddressHistories(string) sampleclient.AddressHistoryInterface {
	return historiesClient{typed: typed[*v1.AddressHistory]{g.client, Histories}}
}

type coreGroup struct {
	client *client
	coreRest
}

func (g coreGroup) Pods(string) coreclient.PodInterface {
	return podsClient{typed: typed[*corev1.Pod]{g.client, Pods}}
}

type appsGroup struct {
	client *client
	appsRest
}

func (g appsGroup) ControllerRevisions(string) appsclient.ControllerRevisionInterface {
	return revisionsClient{typed: typed[*appsv1.ControllerRevision]{g.client, Revisions}}
}

type kubeSet struct {
	kubernetes.Interface
	client *client
}

func (s kubeSet) CoreV1() coreclient.CoreV1Interface { return coreGroup{client: s.client} }
func (s kubeSet) AppsV1() appsclient.AppsV1Interface { return appsGroup{client: s.client} }

type sampleSet struct {
	versioned.Interface
	client *client
}

func (s sampleSet) SamplecrdV1() sampleclient.SamplecrdV1Interface {
	return sampleGroup{client: s.client}
}
