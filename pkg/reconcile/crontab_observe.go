package reconcile

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/crontab"
	"github.com/pod2/pod2/pkg/plan"
)

// Indexes of CronTabs and of what is theirs; values are <namespace>/<name> but
// for the last, where they are namespaces.
const (
	byCronTab = "crontab" // Jobs and pods with its label
	byGoing   = "going"   // CronTabs that are being deleted and wait
)

// addCronTabIndexes is part of New.
func (i Informers) addCronTabIndexes() error {
	labelled := cache.Indexers{byCronTab: labelledCronTab}
	for _, index := range []struct {
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{i.CronTabs.Informer(), cache.Indexers{byNetwork: cronTabNetworks, byGoing: goingCronTabs}},
		{i.Jobs.Informer(), labelled},
		{i.Pods.Informer(), labelled},
	} {
		if err := index.informer.AddIndexers(index.indexers); err != nil {
			return err
		}
	}
	return nil
}

func labelledCronTab(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok || object.GetLabels()[v1.CronTabLabel] == "" {
		return nil, nil
	}
	return []string{path(object.GetNamespace(), object.GetLabels()[v1.CronTabLabel])}, nil
}

func cronTabNetworks(obj any) ([]string, error) {
	c, ok := obj.(*v1.CronTab)
	if !ok {
		return nil, nil
	}
	var networks []string
	for _, n := range c.Spec.Networks {
		networks = append(networks, path(c.Namespace, n.Name))
	}
	return networks, nil
}

func goingCronTabs(obj any) ([]string, error) {
	c, ok := obj.(*v1.CronTab)
	if !ok || c.DeletionTimestamp == nil || !slices.Contains(c.Finalizers, v1.WaitFinalizer) {
		return nil, nil
	}
	return []string{c.Namespace}, nil
}

// cronTabWatches says which CronTabs an event concerns: itself; the one of a
// CronJob's name; the one whose label a Job or a pod carries; those that ask for a
// Network; those that wait for the addresses of a block.
func (r *Reconciler) cronTabWatches() []Watch {
	return []Watch{
		{Informer: r.informers.CronTabs.Informer(), Keys: keyOfName[*v1.CronTab]},
		{Informer: r.informers.CronJobs.Informer(), Keys: keyOfName[*batchv1.CronJob]},
		{Informer: r.informers.Jobs.Informer(), Keys: keyOfLabel[*batchv1.Job]},
		{Informer: r.informers.Pods.Informer(), Keys: keyOfLabel[*corev1.Pod]},
		{Informer: r.informers.Networks.Informer(), Keys: func(obj any) []Key {
			n, ok := obj.(*samplev1.Network)
			if !ok {
				return nil
			}
			return r.keysOfCronTabs(byNetwork, path(n.Namespace, n.Name))
		}},
		{Informer: r.informers.Blocks.Informer(), Keys: func(obj any) []Key {
			block, ok := obj.(*samplev1.AddressBlock)
			if !ok {
				return nil
			}
			return r.keysOfCronTabs(byGoing, block.Namespace)
		}},
	}
}

func keyOfName[T metav1.Object](obj any) []Key {
	object, ok := obj.(T)
	if !ok {
		return nil
	}
	return []Key{{KindCronTab, object.GetNamespace(), object.GetName()}}
}

func keyOfLabel[T metav1.Object](obj any) []Key {
	object, ok := obj.(T)
	if !ok || object.GetLabels()[v1.CronTabLabel] == "" {
		return nil
	}
	return []Key{{KindCronTab, object.GetNamespace(), object.GetLabels()[v1.CronTabLabel]}}
}

func (r *Reconciler) keysOfCronTabs(index, value string) []Key {
	var keys []Key
	for _, c := range indexed[*v1.CronTab](r.informers.CronTabs.Informer().GetIndexer(), index, value) {
		keys = append(keys, Key{KindCronTab, c.Namespace, c.Name})
	}
	return keys
}

// observeCronTab reads the view of one CronTab; its CronTab is nil when there is none.
func (r *Reconciler) observeCronTab(key Key) (crontab.State, error) {
	state := crontab.State{Now: r.clock.Now()}
	cached, err := absent(r.informers.CronTabs.Lister().CronTabs(key.Namespace).Get(key.Name))
	if err != nil || cached == nil {
		return state, err
	}
	state.CronTab = cached
	state.Zone, state.ZoneProblem = zone(cached.Spec.TimeZone)
	cronJob, err := absent(r.informers.CronJobs.Lister().CronJobs(key.Namespace).Get(key.Name))
	if err != nil {
		return state, err
	}
	state = withCronJob(state, cronJob)
	for _, n := range cached.Spec.Networks {
		found, err := r.getNetwork(key.Namespace, n.Name)
		if err != nil {
			return state, err
		}
		if found != nil {
			state.Networks = append(state.Networks, found)
		}
	}
	value := path(key.Namespace, key.Name)
	state.Jobs = indexed[*batchv1.Job](r.informers.Jobs.Informer().GetIndexer(), byCronTab, value)
	state.Pods = indexed[*corev1.Pod](r.podIndex, byCronTab, value)
	if cached.DeletionTimestamp != nil {
		if state.Blocks, err = r.informers.Blocks.Lister().AddressBlocks(key.Namespace).List(labels.Everything()); err != nil {
			return state, err
		}
		if state.Pods, err = r.pods.Pods(key.Namespace).List(labels.Everything()); err != nil {
			return state, err
		}
	}
	slices.SortFunc(state.Networks, plan.ByName)
	slices.SortFunc(state.Jobs, plan.ByName)
	slices.SortFunc(state.Pods, plan.ByName)
	slices.SortFunc(state.Blocks, plan.ByName)
	return state, nil
}

func withCronJob(state crontab.State, cronJob *batchv1.CronJob) crontab.State {
	state.CronJob, state.CronJobZone = cronJob, nil
	if cronJob != nil {
		state.CronJobZone, _ = zone(cronJob.Spec.TimeZone)
	}
	return state
}

// zone reads a time zone from the database of the machine, or else from the one
// that the program brings along. The API server takes no "Local".
func zone(name *string) (*time.Location, string) {
	if name == nil {
		return time.UTC, ""
	}
	if *name == "" || strings.EqualFold(*name, "Local") {
		return nil, "names no zone"
	}
	location, err := time.LoadLocation(*name)
	if err != nil {
		return nil, err.Error()
	}
	return location, ""
}

// SlimJob is the transform of the Job informer: it keeps whose the Job is.
func SlimJob(obj any) (any, error) {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	slim := &batchv1.Job{ObjectMeta: job.ObjectMeta}
	slim.ManagedFields = nil
	slim.Annotations = nil
	return slim, nil
}
