package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones of CronTabs, in an image that has no database of its own

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/reconcile"
)

const (
	// resync is how often every cached object is looked at without an event.
	// Nothing needs it; it bounds how long a missed event could matter.
	resync = time.Hour

	// A start waits apiWait for the API server and our CRDs, which may be about
	// to come up; then it fails, which is visible where waiting is not.
	apiWait = time.Minute
	apiPoll = 2 * time.Second
)

// version is what the go command recorded: a tag, or a pseudo-version with the
// commit, "+dirty" when the tree was; "devel" when it recorded none (go run).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// restConfig says which cluster to talk to, and as whom.
func restConfig(o *options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" && o.master == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("no cluster to talk to: this is no pod of one (%w), and neither --kubeconfig nor --master is given; "+
				"pass for example --kubeconfig=$HOME/.kube/config", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags(o.master, o.kubeconfig); err != nil {
		return nil, fmt.Errorf("read --kubeconfig=%q (--master=%q): %w", o.kubeconfig, o.master, err)
	}
	config.UserAgent = programName + "/" + version()
	config.QPS = -1 // newClients sets the limit
	return config, nil
}

// newClients makes both clients under one common limit.
func newClients(config *rest.Config, o *options) (reconcile.Clients, error) {
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
		return reconcile.Clients{}, fmt.Errorf("make a client of %s for %s: %w", samplecrdv1.GroupName, config.Host, err)
	}
	return reconcile.Clients{Kube: kubeClient, Sample: sampleClient}, nil
}

// factory is what the informer factories of both clients have in common.
type factory interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

// newInformers makes the informers of one namespace, or of all if it is empty.
// Pods have a factory of their own: it streams only those that ask for
// addresses, and keeps of them only what is read here. Agents are watched where they
// have a namespace, and so are Nodes. A controller of all namespaces watches Nodes in
// any case, and ServiceCIDRs if the cluster serves them: one of a single namespace may
// have no rights on what is the whole cluster's.
func newInformers(clients reconcile.Clients, namespace, agentNamespace string, serviceCIDRs bool) (reconcile.Informers, []factory) {
	sample := sampleinformers.NewSharedInformerFactoryWithOptions(clients.Sample, resync,
		sampleinformers.WithNamespace(namespace),
		sampleinformers.WithTransform(dropManagedFields))
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.LabelSelector = samplecrdv1.ManagedLabel + "=true"
		}),
		kubeinformers.WithTransform(reconcile.SlimPod))
	sets := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTransform(reconcile.SlimStatefulSet))
	revisions := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = samplecrdv1.Pod2Label }),
		kubeinformers.WithTransform(dropManagedFields))
	claims := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = samplecrdv1.Pod2Label }),
		kubeinformers.WithTransform(dropManagedFields))
	wide := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync, kubeinformers.WithTransform(dropManagedFields))
	cronJobs := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTransform(dropManagedFields))
	jobs := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = stablev1.CronTabLabel }),
		kubeinformers.WithTransform(reconcile.SlimJob))
	names := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = samplecrdv1.Pod2Label }),
		kubeinformers.WithTransform(dropManagedFields))
	informers := reconcile.Informers{
		Networks:       sample.Samplecrd().V1().Networks(),
		Blocks:         sample.Samplecrd().V1().AddressBlocks(),
		Pod2s:          sample.Samplecrd().V1().Pod2s(),
		Pods:           pods.Core().V1().Pods(),
		StatefulSets:   sets.Apps().V1().StatefulSets(),
		Revisions:      revisions.Apps().V1().ControllerRevisions(),
		Claims:         claims.Core().V1().PersistentVolumeClaims(),
		Classes:        wide.Storage().V1().StorageClasses(),
		CronTabs:       sample.Stable().V1().CronTabs(),
		CronJobs:       cronJobs.Batch().V1().CronJobs(),
		Jobs:           jobs.Batch().V1().Jobs(),
		Services:       names.Core().V1().Services(),
		EndpointSlices: names.Discovery().V1().EndpointSlices(),
		VNIs:           sample.Samplecrd().V1().VNIs(),
		Definitions:    sample.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(),
	}
	factories := []factory{sample, pods, sets, revisions, claims, wide, cronJobs, jobs, names}
	if agentNamespace != "" || namespace == metav1.NamespaceAll {
		nodes := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync, kubeinformers.WithTransform(reconcile.SlimNode))
		informers.Nodes = nodes.Core().V1().Nodes()
		factories = append(factories, nodes)
	}
	if serviceCIDRs && namespace == metav1.NamespaceAll {
		informers.ServiceCIDRs = wide.Networking().V1().ServiceCIDRs()
	}
	if agentNamespace != "" {
		agents := kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync,
			kubeinformers.WithNamespace(agentNamespace),
			kubeinformers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = reconcile.AgentSelector }),
			kubeinformers.WithTransform(reconcile.SlimAgent))
		informers.Agents = agents.Core().V1().Pods()
		factories = append(factories, agents)
	}
	return informers, factories
}

// dropManagedFields is a cache.TransformFunc: nobody here reads them, and an
// update without them leaves them as they are.
func dropManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// newRecorder makes events of the objects of both clients. They are sent in
// the background until stop is called. client-go drops events of an object beyond a
// budget. By default all reasons share 25, and one more every five minutes: the
// rollout of 12 replicas, one at a time, used them up, and nothing was told for hours.
// So each reason has a budget, and one more every ten seconds, as fast as replicas
// become ready. Beyond ten in ten minutes, client-go combines those of one reason in
// one Event, so they do not pile up.
func newRecorder(ctx context.Context, kube kubernetes.Interface) (recorder record.EventRecorder, stop func()) {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(samplecrdv1.Install(scheme))
	utilruntime.Must(stablev1.Install(scheme))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		QPS: 0.1,
		SpamKeyFunc: func(e *corev1.Event) string {
			return strings.Join([]string{e.InvolvedObject.Kind, string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason}, "/")
		},
	}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: programName}), broadcaster.Shutdown
}

// newLock makes the lease with a client of its own, which gives up soon enough
// to try again within the renew deadline, and shares no limit with the syncs.
func newLock(config *rest.Config, o *options) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process for the lease: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(o.election.ResourceLock, o.election.ResourceNamespace, o.election.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, o.election.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("set up the lease %s/%s: %w", o.election.ResourceNamespace, o.election.ResourceName, err)
	}
	return lock, nil
}

// resourceLister is the part of a discovery client that waitForAPI needs.
type resourceLister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// waitForAPI returns nil when the API server serves our resources, and after
// apiWait the reason why it does not. It logs every reason once.
func waitForAPI(ctx context.Context, server resourceLister) error {
	logger := klog.FromContext(ctx)
	var problem error
	err := wait.PollUntilContextTimeout(ctx, apiPoll, apiWait, true, func(ctx context.Context) (bool, error) {
		found := checkAPI(ctx, server)
		// That the time was up in the middle of asking is not what is wrong.
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

// servesServiceCIDRs says whether the cluster has them: Kubernetes 1.33 and later do.
func servesServiceCIDRs(ctx context.Context, server resourceLister) (bool, error) {
	version := networkingv1.SchemeGroupVersion.String()
	list, err := server.ServerResourcesForGroupVersionWithContext(ctx, version)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask the API server for the resources of %s: %w", version, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "servicecidrs" }), nil
}

// served are the resources that we watch, by group and version.
var served = []struct{ groupVersion, resources string }{
	{samplecrdv1.GroupVersion.String(), "addressblocks networks pod2s vnis"},
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
