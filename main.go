// Command pod2-controller runs the Networks, Pod2s and CronTabs of a cluster. This file
// connects clients, informers and the controller. controller.go is the loop,
// pkg/reconcile does the work, and internal/app has the rest of a program.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/app"
	"github.com/pod2/pod2/internal/version"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/reconcile"
)

// resync is how often the keys of every cached object are synced without an event. The
// first time may come after twice as long. Nothing depends on it; it limits the effect of a
// missed event.
const resync = time.Hour

// compareVersionsEvery is how often the controller asks the API server for its
// resourceVersion, by a list of one Network. After a restore, etcd may write as many
// versions as the restore took back before anyone notices. Asking more often detects
// smaller restores.
const compareVersionsEvery = 30 * time.Second

func main() { os.Exit(app.Command(os.Args[1:], os.Stdout, os.Stderr, run)) }

// run returns when ctx has ended and everything that it started has stopped, or with the
// error that kept it from working.
func run(ctx context.Context, config *rest.Config, o *app.Options) error {
	clients, err := app.NewClients(config, o)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "version", version.String(), "apiServer", config.Host, "namespace", o.Namespace)

	health := app.NewHealth(ctx)
	health.Await("the API of " + samplecrdv1.GroupName)
	metrics := k8smetrics.NewKubeRegistry() // one for each run: a test has several runs
	closeServers, err := app.Serve(ctx, o, health, metrics)
	if err != nil {
		return err
	}
	defer closeServers()
	if err := app.WaitForAPI(ctx, clients.Kube.Discovery()); err != nil {
		return err
	}
	serviceCIDRs, err := app.Serves(ctx, clients.Kube.Discovery(), app.ServiceCIDRs)
	if err != nil {
		return err
	}
	if _, err := app.Serves(ctx, clients.Kube.Discovery(), app.MutatingPolicies); err != nil {
		return err
	}

	// Informers and events outlive ctx: running syncs use them during the stop.
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	recorder, stopEvents := app.NewRecorder(background, clients.Kube)
	informers, factories := newInformers(clients, o.Namespace, serviceCIDRs)
	defer func() {
		stopEvents()
		end()
		for _, factory := range factories {
			factory.Shutdown()
		}
	}()
	reconciler, err := reconcile.New(clients, informers, recorder, clock.RealClock{}, o.Settings())
	if err != nil {
		return fmt.Errorf("set up the reconciler: %w", err)
	}
	metrics.CustomMustRegister(app.Collectors(informers.Networks.Lister(), informers.Pods.Lister(), clock.RealClock{})...)
	controller := NewController(reconciler, reconciler.Watches())
	defer controller.queue.ShutDown() // for a standby, which never ran the controller
	for _, factory := range factories {
		factory.StartWithContext(background)
	}
	health.Await("the caches to fill; if the API server refuses a list, the log says which one")
	if !controller.WaitForSync(ctx) {
		return nil
	}
	health.Watch(controller.Check, reconciler.Check)
	go wait.UntilWithContext(background, reconciler.CompareVersions, compareVersionsEvery)

	work := func(ctx, syncs context.Context) error {
		defer reconciler.Finish(syncs)
		return controller.Run(ctx, syncs, o.Workers)
	}
	if !o.Election.LeaderElect {
		health.Await("")
		return work(ctx, background)
	}
	return app.Lead(ctx, config, o, health, work)
}

// factory is the common part of both clients' informer factories.
type factory interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

// newInformers makes the informers of one namespace, or of all if it is empty. Factories
// with a label stream only objects with this label. A controller of all namespaces also
// watches Nodes and AddressSlices, and ServiceCIDRs if the cluster serves them. A controller of a single
// namespace may have no rights on them.
func newInformers(clients reconcile.Clients, namespace string, serviceCIDRs bool) (reconcile.Informers, []factory) {
	sample := sampleinformers.NewSharedInformerFactoryWithOptions(clients.Sample, resync, sampleinformers.WithNamespace(namespace))
	kube := func(namespace, selector string) kubeinformers.SharedInformerFactory {
		return kubeinformers.NewSharedInformerFactoryWithOptions(clients.Kube, resync, kubeinformers.WithNamespace(namespace),
			kubeinformers.WithTweakListOptions(labelled(selector)))
	}
	const managed = samplecrdv1.ManagedLabel + "=true"
	pods, ofPod2s, ofCronTabs := kube(namespace, managed), kube(namespace, samplecrdv1.Pod2Label), kube(namespace, stablev1.CronTabLabel)
	all, cluster := kube(namespace, ""), kube(metav1.NamespaceAll, "")
	// Nothing reads the usual index of namespaces, which would take 50 bytes for each pod.
	pods.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, namespace, resync, cache.Indexers{}, labelled(managed))
	})
	informers := reconcile.Informers{
		Networks:       sample.Samplecrd().V1().Networks(),
		Blocks:         sample.Samplecrd().V1().AddressBlocks(),
		Pod2s:          sample.Samplecrd().V1().Pod2s(),
		Pods:           pods.Core().V1().Pods(),
		StatefulSets:   all.Apps().V1().StatefulSets(),
		Revisions:      ofPod2s.Apps().V1().ControllerRevisions(),
		Claims:         ofPod2s.Core().V1().PersistentVolumeClaims(),
		Classes:        cluster.Storage().V1().StorageClasses(),
		CronTabs:       sample.Stable().V1().CronTabs(),
		CronJobs:       all.Batch().V1().CronJobs(),
		Jobs:           ofCronTabs.Batch().V1().Jobs(),
		Services:       ofPod2s.Core().V1().Services(),
		EndpointSlices: ofPod2s.Discovery().V1().EndpointSlices(),
		Sidecars:       sample.Samplecrd().V1().Sidecars(),
		VNIs:           sample.Samplecrd().V1().VNIs(),
		Histories:      sample.Samplecrd().V1().AddressHistories(),
		Definitions:    sample.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(),
	}
	if namespace == metav1.NamespaceAll {
		informers.Nodes = cluster.Core().V1().Nodes()
		informers.AddressSlices = sample.Samplecrd().V1().AddressSlices()
	}
	if serviceCIDRs && namespace == metav1.NamespaceAll {
		informers.ServiceCIDRs = cluster.Networking().V1().ServiceCIDRs()
	}
	return informers, []factory{sample, pods, ofPod2s, ofCronTabs, all, cluster}
}

// labelled makes a list, or a watch, select the objects with the label.
func labelled(selector string) func(*metav1.ListOptions) {
	return func(list *metav1.ListOptions) { list.LabelSelector = selector }
}
