package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	_ "time/tzdata" // time zones of CronTabs, for images without a time zone database

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/pod2/pod2/internal/version"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/pkg/reconcile"
)

// restConfig says which cluster to use, and as which user.
func restConfig(o *Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" && o.master == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("not running in a cluster (%w): pass --kubeconfig or --master, "+
				"for example --kubeconfig=$HOME/.kube/config", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags(o.master, o.kubeconfig); err != nil {
		return nil, fmt.Errorf("read --kubeconfig=%q (--master=%q): %w", o.kubeconfig, o.master, err)
	}
	config.UserAgent = programName + "/" + version.String()
	config.QPS = -1 // NewClients sets the limit
	return config, nil
}

// NewClients makes both clients with one common limit.
func NewClients(config *rest.Config, o *Options) (reconcile.Clients, error) {
	sample := rest.CopyConfig(config)
	if o.kubeQPS > 0 {
		sample.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.kubeQPS, o.burst)
	}
	kube := rest.CopyConfig(sample)
	kube.ContentType = runtime.ContentTypeProtobuf
	kube.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

	kubeClient, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return reconcile.Clients{}, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	sampleClient, err := versioned.NewForConfig(sample)
	if err != nil {
		return reconcile.Clients{}, fmt.Errorf("make a client for %s on %s: %w", samplecrdv1.GroupName, config.Host, err)
	}
	return reconcile.Clients{Kube: kubeClient, Sample: sampleClient}, nil
}

// eventScheme knows the kinds that events are about. Tests start thousands of controllers, so
// it is made once.
var eventScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(samplecrdv1.Install(scheme))
	utilruntime.Must(stablev1.Install(scheme))
	return scheme
})

// NewRecorder records events about the objects of both clients. It sends them in the
// background until stop is called. client-go drops events about an object beyond a
// budget. By default all reasons share a budget of 25, plus one every five minutes. A
// rollout of 12 replicas, one at a time, used it up, and no event was sent for hours. So
// each reason has its own budget, plus one event every ten seconds, as fast as replicas
// become ready. Beyond ten in ten minutes, client-go combines the events of one reason in
// one Event, so they do not pile up.
func NewRecorder(ctx context.Context, kube kubernetes.Interface) (recorder record.EventRecorder, stop func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		QPS: 0.1,
		SpamKeyFunc: func(e *corev1.Event) string {
			return strings.Join([]string{e.InvolvedObject.Kind, string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason}, "/")
		},
	}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(eventScheme(), corev1.EventSource{Component: programName}), broadcaster.Shutdown
}
