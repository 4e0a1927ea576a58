package dashboard

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/internal/dashboard/view"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
)

// source is a resource that the page shows.
type source struct {
	name     string // of its records
	resource string // in messages about rights
	where    string // " in namespace default"; empty for the whole cluster
	labels   string
	fields   string
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	records  func(any) []view.Record
	// client says whether it can send lists as streams: those in memory cannot.
	client any
}

// agentLabels select the pods of the data plane.
const agentLabels = "app.kubernetes.io/name=pod2-agent"

// sources of a namespace, or of all if it is empty. Nodes and agents are the same for every namespace.
func sources(c reconcile.Clients, namespace string) []source {
	core, sample, where := c.Kube.CoreV1(), c.Sample.SamplecrdV1(), ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	list := []source{
		from(sample.Networks(namespace), source{name: "networks", resource: "networks.samplecrd.k8s.io", where: where, records: of(view.OfNetwork)}),
		from(sample.AddressBlocks(namespace), source{name: "addresses", resource: "addressblocks.samplecrd.k8s.io", where: where, records: of(view.OfAddressBlock)}),
		from(sample.AddressHistories(namespace), source{name: "holders", resource: "addresshistories.samplecrd.k8s.io", where: where, records: of(view.OfAddressHistory)}),
		from(sample.Pod2s(namespace), source{name: "pod2s", resource: "pod2s.samplecrd.k8s.io", where: where, records: of(view.OfPod2)}),
		from(c.Sample.StableV1().CronTabs(namespace), source{name: "crontabs", resource: "crontabs.stable.example.com", where: where, records: of(view.OfCronTab)}),
		from(core.Pods(namespace), source{name: "pods", resource: "pods", where: where, records: of(view.OfPod), labels: v1.ManagedLabel + "=true"}),
		from(core.Events(namespace), source{name: "events", resource: "events", where: where, records: of(view.OfEvent), fields: "source=pod2-controller"}),
		from(core.Nodes(), source{name: "nodes", resource: "nodes", records: of(view.OfNode)}),
		from(core.Pods(metav1.NamespaceAll), source{name: "agents", resource: "pods", records: of(view.OfAgent), labels: agentLabels}),
	}
	for i := range list {
		list[i].client = c.Kube
	}
	return list
}

// lister is a client that can list and watch. The dashboard uses nothing else of it.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// from completes a source with a client.
func from[L runtime.Object](c lister[L], s source) source {
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }
	s.watch = c.Watch
	return s
}

// of makes a function about one kind one about any object.
func of[T any](records func(T) []view.Record) func(any) []view.Record {
	return func(object any) []view.Record { return records(object.(T)) }
}
