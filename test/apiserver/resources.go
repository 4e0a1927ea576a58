package apiserver

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// Object is an object that the server can store. The server never changes a stored object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource describes a kind.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	example    Object
	generation bool // counts changes outside of metadata and status
	status     bool // has the subresource status
	custom     bool // is defined by a CRD
}

// Apart are the resources whose writes say nothing about the controller.
var Apart = map[string]bool{"events": true, "leases": true}

var (
	core    = corev1.SchemeGroupVersion
	samples = schema.GroupVersion(v1.GroupVersion)
	stable  = schema.GroupVersion(stablev1.GroupVersion)
	// Resources are all resources of the server.
	Resources = []*Resource{
		{core.WithResource("pods"), "Pod", &corev1.Pod{}, true, true, false},
		{core.WithResource("persistentvolumeclaims"), "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{}, false, true, false},
		{core.WithResource("services"), "Service", &corev1.Service{}, false, true, false},
		{core.WithResource("nodes"), "Node", &corev1.Node{}, false, true, false},
		{core.WithResource("events"), "Event", &corev1.Event{}, false, false, false},
		{appsv1.SchemeGroupVersion.WithResource("statefulsets"), "StatefulSet", &appsv1.StatefulSet{}, true, true, false},
		{appsv1.SchemeGroupVersion.WithResource("replicasets"), "ReplicaSet", &appsv1.ReplicaSet{}, true, true, false},
		{appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), "ControllerRevision", &appsv1.ControllerRevision{}, false, false, false},
		{storagev1.SchemeGroupVersion.WithResource("storageclasses"), "StorageClass", &storagev1.StorageClass{}, false, false, false},
		{batchv1.SchemeGroupVersion.WithResource("cronjobs"), "CronJob", &batchv1.CronJob{}, true, true, false},
		{batchv1.SchemeGroupVersion.WithResource("jobs"), "Job", &batchv1.Job{}, true, true, false},
		{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "EndpointSlice", &discoveryv1.EndpointSlice{}, true, false, false},
		{networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), "ServiceCIDR", &networkingv1.ServiceCIDR{}, false, true, false},
		{coordinationv1.SchemeGroupVersion.WithResource("leases"), "Lease", &coordinationv1.Lease{}, false, false, false},
		{samples.WithResource("networks"), "Network", &v1.Network{}, true, true, true},
		{samples.WithResource("addressblocks"), "AddressBlock", &v1.AddressBlock{}, true, false, true},
		{samples.WithResource("addressslices"), "AddressSlice", &v1.AddressSlice{}, true, false, true},
		{samples.WithResource("addresshistories"), "AddressHistory", &v1.AddressHistory{}, true, false, true},
		{samples.WithResource("pod2s"), "Pod2", &v1.Pod2{}, true, true, true},
		{samples.WithResource("sidecars"), "Sidecar", &v1.Sidecar{}, true, true, true},
		{samples.WithResource("vnis"), "VNI", &v1.VNI{}, true, false, true},
		{schema.GroupVersion(nadv1.GroupVersion).WithResource("network-attachment-definitions"), "NetworkAttachmentDefinition", &nadv1.NetworkAttachmentDefinition{}, true, false, true},
		{stable.WithResource("crontabs"), "CronTab", &stablev1.CronTab{}, true, true, true},
	}
)

// ResourceNamed returns the resource with this name, such as "pods".
func ResourceNamed(name string) *Resource {
	for _, r := range Resources {
		if r.Resource == name {
			return r
		}
	}
	panic("apiserver: unknown resource " + name)
}

// ResourceOf returns the resource of a stored object.
func ResourceOf(obj Object) *Resource {
	for _, r := range Resources {
		if r.Kind == obj.GetObjectKind().GroupVersionKind().Kind {
			return r
		}
	}
	panic(fmt.Sprintf("apiserver: unknown resource of a %T", obj))
}

func (r *Resource) new() Object {
	return reflect.New(reflect.TypeOf(r.example).Elem()).Interface().(Object)
}

// Namespace is the default namespace of the resource's objects, "" for cluster-scoped
// objects.
func (r *Resource) Namespace() string {
	switch r.Resource {
	case "storageclasses", "vnis", "nodes", "servicecidrs":
		return ""
	}
	return Namespace
}

// Place splits "name" or "namespace/name".
func (r *Resource) Place(name string) (namespace, bare string) {
	if namespace, bare, other := strings.Cut(name, "/"); other {
		return namespace, bare
	}
	return r.Namespace(), name
}

// GVK is the group, version and kind of the objects.
func (r *Resource) GVK() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

var (
	scheme = newScheme()
	// Decoder reads objects of any kind.
	Decoder = serializer.NewCodecFactory(scheme).UniversalDeserializer()
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(s))
	utilruntime.Must(v1.Install(s))
	utilruntime.Must(stablev1.Install(s))
	utilruntime.Must(nadv1.Install(s))
	utilruntime.Must(v1.RegisterDefaults(s))
	utilruntime.Must(stablev1.RegisterDefaults(s))
	return s
}

// part returns the field "Spec" or "Status" of an object.
func part(obj Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// sameContent says whether two objects differ only in metadata and status.
func sameContent(r *Resource, a, b Object) bool {
	bare := func(obj Object) Object {
		c := obj.DeepCopyObject().(Object)
		labels := c.GetLabels()
		part(c, "ObjectMeta").SetZero()
		if r.Resource == "endpointslices" { // their generation counts label changes too
			c.SetLabels(labels)
		}
		if r.status {
			part(c, "Status").SetZero()
		}
		return c
	}
	return equality.Semantic.DeepEqual(bare(a), bare(b))
}

// SetDefaults sets the defaults that matter: those of Pod2's kinds, and those without which
// the controller would write another value.
func SetDefaults(obj Object) {
	scheme.Default(obj)
	if service, ok := obj.(*corev1.Service); ok {
		for i := range service.Spec.Ports {
			if port := &service.Spec.Ports[i]; port.TargetPort.IntVal == 0 && port.TargetPort.StrVal == "" {
				port.TargetPort = intstr.FromInt32(port.Port)
			}
		}
	}
}

// Now returns the time in the precision of the API.
func Now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }
