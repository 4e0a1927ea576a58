package addresses

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
)

// columns are those of `kubectl get`; with priority 1, of `kubectl get -o wide`.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The Network and the address."},
	{Name: "Address", Type: "string", Description: "The IP address."},
	{Name: "State", Type: "string", Description: "Bound, Reserved or Resting."},
	{Name: "Pod", Type: "string", Description: "The pod that holds the address, or held it last."},
	{Name: "Owner", Type: "string", Description: "The controller of the pod."},
	{Name: "Node", Type: "string", Description: "The node of the pod."},
	{Name: "Since", Type: "string", Description: "The time since the address entered this state."},
	{Name: "Free-In", Type: "string", Priority: 1, Description: "The time until another pod can get a Resting address."},
	{Name: "MAC", Type: "string", Priority: 1, Description: "The hardware address that belongs to the IP address."},
}

// ConvertToTable returns the columns of `kubectl get`.
func (REST) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = columns
	}
	if list, err := meta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if one, err := meta.Accessor(object); err == nil {
		table.ResourceVersion = one.GetResourceVersion()
	}
	now := time.Now()
	add := func(a *view.Address) {
		table.Rows = append(table.Rows, metav1.TableRow{Object: runtime.RawExtension{Object: a}, Cells: []any{
			a.Name, a.Spec.Address, string(a.Status.State), a.Spec.Pod, owner(a), orNone(a.Status.Node),
			duration.HumanDuration(now.Sub(a.Status.Since.Time)), freeIn(a, now), a.Spec.MAC,
		}})
	}
	switch o := object.(type) {
	case *view.Address:
		add(o)
	case *view.AddressList:
		for i := range o.Items {
			add(&o.Items[i])
		}
	}
	return table, nil
}

func owner(a *view.Address) string {
	if a.Spec.Owner.Kind == "" {
		return "<none>"
	}
	return a.Spec.Owner.Kind + "/" + a.Spec.Owner.Name
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func freeIn(a *view.Address, now time.Time) string {
	switch until := a.Status.Until; {
	case until == nil:
		return "<none>"
	case !until.After(now):
		return "now"
	default:
		return duration.HumanDuration(until.Sub(now))
	}
}
