package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// addEndpointsIndexes is part of New.
func (i Informers) addEndpointsIndexes() error {
	labelled := cache.Indexers{byPod2: labelledPod2}
	if err := i.Services.Informer().AddIndexers(labelled); err != nil {
		return err
	}
	return i.EndpointSlices.Informer().AddIndexers(labelled)
}

// endpointsWatches says the names of which Pod2's replicas an event concerns: its
// own; of the pods those that have something to publish; Services and slices with
// its label.
func (r *Reconciler) endpointsWatches() []Watch {
	labelled := func(obj any) []Key {
		switch obj.(type) {
		case *corev1.Service, *discoveryv1.EndpointSlice:
			pod2s, _ := labelledPod2(obj)
			return keysOf(KindEndpoints, pod2s)
		}
		return nil
	}
	return []Watch{
		{Informer: r.informers.Pod2s.Informer(), Keys: func(obj any) []Key {
			p, ok := obj.(*v1.Pod2)
			if !ok {
				return nil
			}
			return []Key{{KindEndpoints, p.Namespace, p.Name}}
		}},
		{Informer: r.informers.Pods.Informer(), Keys: func(obj any) []Key {
			pod, ok := obj.(*corev1.Pod)
			if !ok || pod.Annotations[v1.AddressesAnnotation] == "" {
				return nil
			}
			pod2s, _ := podPod2s(pod)
			return keysOf(KindEndpoints, pod2s)
		}},
		{Informer: r.informers.Services.Informer(), Keys: labelled},
		{Informer: r.informers.EndpointSlices.Informer(), Keys: labelled},
	}
}

// observeEndpoints reads the view of the names of one Pod2's replicas. The delay is when to look again at what no event tells;
// zero: never.
func (r *Reconciler) observeEndpoints(key Key) (state dns.State, again time.Duration, err error) {
	state.Now = r.clock.Now()
	state.Pod2, err = absent(r.pod2s.Pod2s(key.Namespace).Get(key.Name))
	if err != nil {
		return state, 0, err
	}
	value := path(key.Namespace, key.Name)
	if state.Pod2 == nil {
		state.Slices = indexed[*discoveryv1.EndpointSlice](r.informers.EndpointSlices.Informer().GetIndexer(), byPod2, value)
		slices.SortFunc(state.Slices, plan.ByName)
		return state, 0, nil
	}
	var pods, services, named time.Duration
	state.Pods, pods = r.podsOfPod2(key)
	state.Services, services = r.services.taken.addTo(key, indexed[*corev1.Service](r.informers.Services.Informer().GetIndexer(), byPod2, value))
	state.Slices, named = r.slices.taken.addTo(key, indexed[*discoveryv1.EndpointSlice](r.informers.EndpointSlices.Informer().GetIndexer(), byPod2, value))
	return state, soonest(pods, soonest(services, named)), nil
}
