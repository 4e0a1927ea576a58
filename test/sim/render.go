package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// Render returns the stored objects, one in each line, without the parts that differ from
// run to run. It replaces UIDs and VNIs by the names of their objects, and omits times and
// resourceVersions.
func (s *Cluster) Render() string {
	s.Lock()
	defer s.Unlock()
	var names, numbers []string
	for _, c := range s.History() {
		if c.Old == nil {
			names = append(names, string(c.New.Object.GetUID()), "uid of "+c.Key.String())
		}
		if vni, ok := c.New.Object.(*v1.VNI); ok { // the number depends on the Network's UID
			numbers = append(numbers, vni.Name, "VNI of "+apiserver.Placed(vni.Spec.Network.Namespace, vni.Spec.Network.Name))
		}
	}
	uids, vnis := strings.NewReplacer(names...), strings.NewReplacer(numbers...)
	var lines []string
	for k, v := range s.Objects() {
		if apiserver.Apart[k.Resource] || k.Resource == "addresshistories" { // the Promises check these
			continue
		}
		object := decodeJSON(v.JSON()).(map[string]any)
		metadata := object["metadata"].(map[string]any)
		for _, field := range []string{"resourceVersion", "generation", "creationTimestamp"} {
			delete(metadata, field)
		}
		if status, ok := object["status"].(map[string]any); ok {
			delete(status, "observedGeneration")
			if conditions, ok := status["conditions"].([]any); ok { // by type, in any order
				slices.SortFunc(conditions, func(a, b any) int {
					return strings.Compare(a.(map[string]any)["type"].(string), b.(map[string]any)["type"].(string))
				})
			}
		}
		text := uids.Replace(string(apiserver.MustJSON(object)))
		lines = append(lines, vnis.Replace(fmt.Sprintf("%s %s", k, times.ReplaceAllString(text, "T"))))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Differ returns the lines that are in only one of two texts, "" if there are none.
func Differ(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// Essence returns everything that users were promised, without the parts that may depend on
// the order of events: which free address a pod has, other entries of AddressBlocks, and
// how often an object was recreated. A line begins with "WRONG" where AddressBlocks and
// pods disagree.
func (s *Cluster) Essence() string {
	s.Lock()
	defer s.Unlock()
	var lines []string
	holders := map[string]string{}
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		var images, networks []string
		for _, c := range pod.Spec.Containers {
			images = append(images, c.Image)
		}
		for network, address := range published(pod) {
			networks = append(networks, network)
			if spec.Live(pod) {
				holders[apiserver.Placed(pod.Namespace, network)+" "+address] = string(pod.UID)
			}
		}
		slices.Sort(networks)
		lines = append(lines, fmt.Sprintf("pod %s: %s, ready %v, images %v, on %v, revision %s, of %s", apiserver.NameOf(pod), pod.Status.Phase,
			ready(pod), images, networks, pod.Labels[v1.PodTemplateHashLabel], ownerOf(pod)))
	}
	for _, block := range apiserver.List[*v1.AddressBlock](s.Server, "addressblocks") {
		for _, e := range block.Spec.Entries {
			k := apiserver.Placed(block.Namespace, block.Spec.Network) + " " + e.Address
			if e.State == v1.AddressBound && holders[k] != string(e.PodUID) {
				lines = append(lines, fmt.Sprintf("WRONG: %s is bound to %s, which does not publish it", k, e.Pod))
			} else if e.State == v1.AddressBound {
				delete(holders, k)
			}
		}
	}
	for k := range holders {
		lines = append(lines, fmt.Sprintf("WRONG: %s is published but not bound", k))
	}
	for _, p := range apiserver.List[*v1.Pod2](s.Server, "pod2s") {
		lines = append(lines, fmt.Sprintf("pod2 %s: %d replicas, %d available, %d updated, %s", apiserver.NameOf(p), p.Status.Replicas, p.Status.AvailableReplicas,
			p.Status.UpdatedReplicas, conditions(p.Generation == p.Status.ObservedGeneration, p.Status.Conditions)))
	}
	for _, n := range apiserver.List[*v1.Network](s.Server, "networks") {
		lines = append(lines, fmt.Sprintf("network %s: %d bound, finalizers %v, %s", apiserver.NameOf(n), n.Status.Bound, n.Finalizers,
			conditions(n.Generation == n.Status.ObservedGeneration, n.Status.Conditions)))
	}
	vnis := apiserver.List[*v1.VNI](s.Server, "vnis")
	for _, vni := range vnis {
		if !slices.ContainsFunc(apiserver.List[*v1.Network](s.Server, "networks"), func(n *v1.Network) bool {
			return n.UID == vni.Spec.Network.UID && strconv.Itoa(int(n.Status.VNI)) == vni.Name
		}) {
			lines = append(lines, fmt.Sprintf("WRONG: VNI %s names Network %s, which does not have it", vni.Name, vni.Spec.Network.Name))
		}
	}
	lines = append(lines, fmt.Sprintf("%d VNIs", len(vnis)))
	for _, d := range apiserver.List[*nadv1.NetworkAttachmentDefinition](s.Server, "network-attachment-definitions") {
		n, _ := s.Get(apiserver.ResourceNamed("networks"), d.Namespace, d.Name).(*v1.Network)
		lines = append(lines, fmt.Sprintf("definition %s: of %s, for its Network %v", apiserver.NameOf(d), ownerOf(d),
			n != nil && strings.Contains(d.Spec.Config, fmt.Sprintf(`"name":"%s.%s"`, n.Namespace, n.Name))))
	}
	for _, c := range apiserver.List[*stablev1.CronTab](s.Server, "crontabs") {
		lines = append(lines, fmt.Sprintf("crontab %s: %s", apiserver.NameOf(c), conditions(c.Generation == c.Status.ObservedGeneration, c.Status.Conditions)))
	}
	for _, c := range apiserver.List[*v1.Sidecar](s.Server, "sidecars") {
		lines = append(lines, fmt.Sprintf("sidecar %s: %d pods, %s", apiserver.NameOf(c), c.Status.Matched,
			conditions(c.Generation == c.Status.ObservedGeneration, c.Status.Conditions)))
	}
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](s.Server, "persistentvolumeclaims") {
		var owners []string
		for _, ref := range c.OwnerReferences {
			owners = append(owners, ref.Kind+" "+ref.Name)
		}
		lines = append(lines, fmt.Sprintf("PVC %s: %s, of %s, terminating %v, deleted with %v, of Pod2 %q, surge %q", apiserver.NameOf(c), c.Status.Phase,
			c.Status.Capacity.Storage(), c.DeletionTimestamp != nil, owners, c.Labels[v1.Pod2Label], c.Annotations[v1.SurgeClaimAnnotation]))
	}
	for _, kind := range []string{"services", "cronjobs"} {
		for _, v := range s.All(apiserver.ResourceNamed(kind), "") {
			lines = append(lines, kind+" "+apiserver.NameOf(v.Object))
		}
	}
	for _, slice := range apiserver.List[*discoveryv1.EndpointSlice](s.Server, "endpointslices") {
		var names []string
		for _, e := range slice.Endpoints {
			names = append(names, *e.Hostname)
		}
		lines = append(lines, fmt.Sprintf("slice %s: %v", apiserver.NameOf(slice), names))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ownerOf(obj apiserver.Object) string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return "no owner"
}

func conditions(observed bool, all []metav1.Condition) string {
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s %s", c.Type, c.Status))
	}
	slices.Sort(texts)
	return fmt.Sprintf("observed %v, %s", observed, strings.Join(texts, ", "))
}
