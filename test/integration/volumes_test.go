//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// class creates a StorageClass, and removes it after the test. provision creates its
// volumes.
func class(t *testing.T, namespace string, expands bool) string {
	t.Helper()
	made, err := kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-"}, Provisioner: "test.example.com/provision",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate), AllowVolumeExpansion: &expands,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.StorageV1().StorageClasses().Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return made.Name
}

// provisioner acts as a storage driver for the PVCs of a namespace: it creates a volume for
// each PVC, which the volume controller binds, and grows volumes.
type provisioner struct {
	mu     sync.Mutex
	claims map[string]string // the last rendering of every PVC ever seen, without its phase
}

func (p *provisioner) seen(claim string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims[claim]
}

// provision runs a provisioner until the test ends.
func provision(t *testing.T, namespace string) *provisioner {
	t.Helper()
	p := &provisioner{claims: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := kube.CoreV1().PersistentVolumeClaims(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			if !ok || event.Type == "DELETED" {
				continue
			}
			p.mu.Lock()
			_, p.claims[claim.Name], _ = strings.Cut(renderClaim(claim), " ")
			p.mu.Unlock()
			if err := serve(ctx, claim); err != nil && ctx.Err() == nil {
				t.Errorf("provision a volume for PVC %s: %v", claim.Name, err)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		err := kube.CoreV1().PersistentVolumes().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test-namespace=" + namespace})
		if err != nil {
			t.Error(err)
		}
	})
	return p
}

func serve(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	switch {
	case claim.Spec.StorageClassName == nil: // the default class will be set soon
	case claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil:
		_, err := kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID), Labels: map[string]string{"test-namespace": claim.Namespace}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + string(claim.UID)}},
				ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			},
		}, metav1.CreateOptions{})
		if err != nil && !strings.Contains(err.Error(), "already exists") { // created for an earlier event of the PVC
			return fmt.Errorf("create the volume of a PVC: %w", err)
		}
	case claim.Status.Phase == corev1.ClaimBound && has.Cmp(wanted) < 0:
		size := wanted.String()
		if _, err := kube.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType,
			[]byte(fmt.Sprintf(`{"spec":{"capacity":{"storage":%q}}}`, size)), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("grow the volume of a PVC: %w", err)
		}
		if _, err := kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType,
			[]byte(fmt.Sprintf(`{"status":{"capacity":{"storage":%q}}}`, size)), metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("write the new capacity of a PVC: %w", err)
		}
	}
	return nil
}

// renderClaim returns "Bound 1Gi web/0 owned surge": phase, requested size and labels.
// "owned" means that the PVC is deleted with its Pod2, "surge" that it is deleted with a
// surge replica.
func renderClaim(c *corev1.PersistentVolumeClaim) string {
	text := fmt.Sprintf("%s %s", c.Status.Phase, c.Spec.Resources.Requests.Storage())
	if pod2 := c.Labels[v1.Pod2Label]; pod2 != "" {
		text += " " + pod2 + "/" + c.Labels[v1.PodIndexLabel]
	}
	for _, ref := range c.OwnerReferences {
		if ref.Kind == "Pod2" {
			text += " owned"
		}
	}
	if c.Annotations[v1.SurgeClaimAnnotation] != "" {
		text += " surge"
	}
	return text
}

func listClaims(t *testing.T, namespace string, of func(*corev1.PersistentVolumeClaim) string) map[string]string {
	t.Helper()
	list, err := kube.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]string{}
	for i := range list.Items {
		result[list.Items[i].Name] = of(&list.Items[i])
	}
	return result
}

func claimUIDs(t *testing.T, namespace string) map[string]string {
	t.Helper()
	return listClaims(t, namespace, func(c *corev1.PersistentVolumeClaim) string { return string(c.UID) })
}

// waitClaims waits until a namespace has exactly these PVCs.
func waitClaims(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, "PVCs are\n"+want+"\n", func(context.Context) (string, error) {
		if got := render(listClaims(t, namespace, renderClaim)); got != want {
			return "they are\n" + got, nil
		}
		return "", nil
	})
}

// mounted returns the PVC of a pod's volume, "" for none.
func mounted(pod *corev1.Pod, volume string) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == volume && v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// requireQuiet fails if the controller writes anything within two seconds, many times the
// duration of a sync.
func requireQuiet(t *testing.T, namespace string) {
	t.Helper()
	since := time.Now()
	time.Sleep(2 * time.Second)
	if lines, _ := writes(t, namespace, since); len(lines) > 0 {
		t.Errorf("unnecessary writes:\n%s", strings.Join(lines, "\n"))
	}
}
