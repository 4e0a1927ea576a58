package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// DefinitionDone describes the remaining work for the VNIs and the NetworkAttachmentDefinition
// of the Network with this name, which need not exist.
//
//   - A VNI that names the Network has its UID, and there is no other VNI than the one in the
//     status.
//   - An Overlay Network has the VNI of its status, or reports that none was free. Other
//     Networks have none.
//   - The NetworkAttachmentDefinition with the Network's name has the Network's name and plugin,
//     if the Network owns it.
//   - The condition Attachable says whether it does.
//
// While the status is about an earlier spec, or the Network lacks the finalizer, only VNIs
// count.
func DefinitionDone(c *Cluster, namespace, name string) string {
	n, numbers := named(c.Networks, name), []string(nil)
	for _, vni := range c.VNIs {
		number, err := strconv.ParseInt(vni.Name, 10, 32)
		of := vni.Spec.Network
		switch {
		case of.Namespace != namespace || of.Name != name || err != nil || number <= 0 || number >= 1<<24 || vni.DeletionTimestamp != nil:
		case n == nil || n.UID != of.UID:
			return fmt.Sprintf("VNI %s belongs to a Network that is gone", vni.Name)
		default:
			numbers = append(numbers, vni.Name)
		}
	}
	if n == nil {
		return ""
	}
	told := strconv.Itoa(int(n.Status.VNI))
	has := slices.Contains(numbers, told)
	if has && len(numbers) > 1 {
		return fmt.Sprintf("the Network has %d VNIs", len(numbers))
	}
	if n.DeletionTimestamp != nil || !hasFinalizer(n) || n.Status.ObservedGeneration != n.Generation {
		return ""
	}
	attachable := meta.FindStatusCondition(n.Status.Conditions, v1.ConditionAttachable)
	overlay := n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI
	switch {
	case attachable == nil || attachable.ObservedGeneration != n.Generation:
		return "the condition Attachable is missing, or about an earlier spec"
	case !overlay && n.Status.VNI != 0:
		return fmt.Sprintf("the status has VNI %s, but the Network is not an Overlay", told)
	case overlay && !has && (n.Status.VNI != 0 || len(numbers) > 0):
		return fmt.Sprintf("the status has VNI %s, which the Network does not have", told)
	case overlay && !has && c.Definitions != nil && attachable.Reason != "NoFreeVNI":
		return "the Network has no VNI, and does not report that none is free"
	}
	why, attaches := "", false
	if d := named(c.Definitions, name); d != nil {
		why, attaches = definitionDone(n, d, namespace, overlay)
	} else if c.Definitions != nil && attachable.Reason != "InvalidConfig" && attachable.Reason != "NoFreeVNI" {
		why = "there is no NetworkAttachmentDefinition"
	}
	if said := attachable.Status == metav1.ConditionTrue; why == "" && said != attaches && attachable.Reason != "InvalidConfig" && attachable.Reason != "NoFreeVNI" {
		why = fmt.Sprintf("the condition Attachable is %s", attachable.Status)
	}
	return why
}

// definitionDone describes the faults of a NetworkAttachmentDefinition, and whether it
// attaches pods. If it was made for a Network with this name and lost its owner, it is the
// Network's.
func definitionDone(n *v1.Network, d *nadv1.NetworkAttachmentDefinition, namespace string, overlay bool) (why string, attaches bool) {
	valid := meta.FindStatusCondition(n.Status.Conditions, v1.ConditionAttachable).Reason
	plugin := `"type":"static"` // the ipam beside a user's plugin
	if overlay {
		plugin = `"type":"pod2-cni"`
	}
	switch owner := metav1.GetControllerOfNoCopy(d); {
	case d.DeletionTimestamp != nil, valid == "InvalidConfig", valid == "NoFreeVNI":
		return "", false
	case owner == nil && d.Labels[v1.NetworkLabel] == n.Name:
		return "the NetworkAttachmentDefinition has no owner", false
	case owner == nil || owner.UID != n.UID:
		return "", false
	case d.Labels[v1.NetworkLabel] != n.Name:
		return "the NetworkAttachmentDefinition lacks the label of its Network", false
	case !strings.Contains(d.Spec.Config, fmt.Sprintf("%q:%q", "name", namespace+"."+n.Name)), !strings.Contains(d.Spec.Config, plugin):
		return "the NetworkAttachmentDefinition differs from the Network", false
	}
	return "", true
}
