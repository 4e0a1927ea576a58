package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "view.samplecrd.k8s.io", Version: "v1alpha1"}

// Fields are the field selectors of an Address. metadata.name and
// metadata.namespace are selectors too.
var Fields = map[string]func(*Address) string{
	"spec.address": func(a *Address) string { return a.Spec.Address },
	"spec.network": func(a *Address) string { return a.Spec.Network },
	"spec.pod":     func(a *Address) string { return a.Spec.Pod },
	"status.state": func(a *Address) string { return string(a.Status.State) },
}

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	AddKnownTypes(scheme, SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("Address"), func(label, value string) (string, string, error) {
		if label != "metadata.name" && label != "metadata.namespace" && Fields[label] == nil {
			return "", "", fmt.Errorf("%q is not a field selector of Addresses: use metadata.name, spec.address, spec.network, spec.pod or status.state", label)
		}
		return label, value, nil
	})
}

// AddKnownTypes registers the types for a version.
func AddKnownTypes(scheme *runtime.Scheme, version schema.GroupVersion) {
	scheme.AddKnownTypes(version, &Address{}, &AddressList{}, &Pod2Plan{})
}
