//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/attachment"
)

// The controller is killed again and again while it creates 200 replicas. There are never
// more than 200, none is deleted again, and each gets its own address.
func TestKilledWhileCreating(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	most := 0
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		if len(pods) < most {
			return fmt.Sprintf("one of %d replicas was deleted", most)
		}
		if most = len(pods); most > 200 {
			return fmt.Sprintf("there are %d pods for 200 replicas", most)
		}
		return sharedAddress(pods)
	})
	create(t, ns, network("blue", `{cidr: 10.0.0.0/23}`)+network("green", `{cidr: 10.0.0.0/24}`)+
		pod2("web", `replicas: 200, networks: [{name: blue}, {name: green}]`))
	for _, at := range []struct{ pods, served int }{{10, 0}, {60, 0}, {110, 1}, {160, 40}, {200, 120}} {
		c := startController(t, ns)
		f.until(t, fmt.Sprintf("%d pods, %d served", at.pods, at.served), func(pods map[string]*corev1.Pod) bool {
			return len(pods) >= at.pods && served(pods) >= at.served
		})
		_ = c.stop(syscall.SIGKILL)
		pods := listPods(t, ns)
		t.Logf("killed with %d pods, %d of them with addresses", len(pods), served(pods))
	}
	c := startController(t, ns, withMetrics)
	waitReady(t, ns, "pod2/web")
	f.seenAll(t, ns)
	if why := ledgerDiffers(t, ns); why != "" {
		t.Error(why)
	}
	waitNames(t, ns)
	c.waitIdle(t, 1)
	c.requireQuiet(t, ns, time.Now(), "pods,pod2s,networks")
}

func served(pods map[string]*corev1.Pod) int {
	n := 0
	for _, pod := range pods {
		if !attachment.Gated(pod) {
			n++
		}
	}
	return n
}

// Two controllers that do not know each other write at once, and are killed at times.
// Meanwhile users create, delete and scale, and pods fail, on nearly full Networks. Two
// live pods never have one address, and the cluster converges.
func TestTwoControllersAtOnce(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	f := follow(t, ns, sharedAddress)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/27, reuseDelaySeconds: 0}`)+network("green", `{cidr: 10.0.0.0/27, reuseDelaySeconds: 1}`)+
		pod2("web", `replicas: 5, networks: [{name: blue}, {name: green}]`)+pod2("db", `replicas: 5`+blue))
	begin := time.Now()
	controllers := []*controller{startController(t, ns), startController(t, ns)}
	for i := range 200 {
		switch n := dice.IntN(20); {
		case n == 0 && i%3 == 0:
			which := dice.IntN(2)
			_ = controllers[which].stop(syscall.SIGKILL)
			controllers[which] = startController(t, ns)
		case n < 4:
			scaleTo(t, ns, []string{"web", "db"}[dice.IntN(2)], dice.IntN(16))
		case n < 10:
			barePod(t, ns, fmt.Sprintf("bare-%d", dice.IntN(12)), []string{"blue", "green", "blue, green"}[dice.IntN(3)])
		default:
			disturb(t, ns, dice)
		}
	}
	t.Logf("%s of disturbance", time.Since(begin))
	begin = time.Now()
	scaleTo(t, ns, "web", 10)
	scaleTo(t, ns, "db", 8)
	for name := range listPods(t, ns) {
		if strings.HasPrefix(name, "bare-") {
			deletePod(t, ns, name)
		}
	}
	waitReady(t, ns, "pod2/web", "pod2/db")
	// Well below the 30 s for which the controller trusts the result of a live read.
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("the controllers took %s to converge: they work against each other", took)
	}
	f.seenAll(t, ns)
	eventually(t, "the AddressBlocks and the pods agree", func(context.Context) (string, error) { return ledgerDiffers(t, ns), nil })
}

func scaleTo(t *testing.T, namespace, name string, replicas int) {
	t.Helper()
	_, err := sample.SamplecrdV1().Pod2s(namespace).Patch(t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func barePod(t *testing.T, namespace, name, request string) {
	t.Helper()
	_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"samplecrd.k8s.io/managed": "true"},
			Annotations: map[string]string{"samplecrd.k8s.io/networks": request},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "samplecrd.k8s.io/addresses"}},
			Containers:      []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	if err := kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// disturb deletes any pod, or fails a running one without owner. The backoff of a failed
// replica would only make the test long.
func disturb(t *testing.T, namespace string, dice *rand.Rand) {
	t.Helper()
	pods, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		return
	}
	pod := &pods.Items[dice.IntN(len(pods.Items))]
	if dice.IntN(2) == 0 || !available(pod) || len(pod.OwnerReferences) > 0 {
		deletePod(t, namespace, pod.Name)
		return
	}
	_, err = kube.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Failed"}}`, pod.UID), metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
}

// A second controller on a converged cluster writes nothing, also when it looks at every
// object again.
func TestSecondStartWritesNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+network("green", `{cidr: "2001:db8::/64"}`)+network("tiny", `{cidr: 10.0.0.0/30}`)+
		network("bad", `{cidr: 10.0.0.0/24, exclude: ["10.0.0.9-10.0.0.8"]}`)+
		pod2("web", `replicas: 5, networks: [{name: blue, addresses: [10.0.0.77]}, {name: green}]`)+pod2("plain", `replicas: 2, minReadySeconds: 1`)+
		pod2("crowd", `replicas: 3, networks: [{name: tiny}]`)+pod2("lost", `replicas: 1, networks: [{name: nowhere}]`)+
		gatedPod("typo", "blue,,")+gatedPod("bare", "green, blue"))
	waitReady(t, ns, "pod2/web", "pod2/plain", "pod/bare")
	fail(t, ns, "web-1")
	run(t, ns, "scale", "pod2", "web", "--replicas=4")
	waitReady(t, ns, "pod2/web")
	waitCondition(t, ns, "pod2/crowd", "Ready", "False WaitingForAddresses")
	waitCondition(t, ns, "pod2/lost", "Ready", "False NetworkNotFound")
	waitCondition(t, ns, "pod/typo", bound, "False InvalidRequest")
	waitCondition(t, ns, "network/tiny", "AddressesAvailable", "False")
	waitNames(t, ns)
	c.waitIdle(t, 1)
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM ends the controller with %v, want exit status 0", err)
	}
	since := time.Now()
	startController(t, ns, withMetrics).requireQuiet(t, ns, since, "pods,pod2s,networks,statefulsets,ab")
}

// The leader releases its lease on SIGTERM, so a standby need not wait a minute for its
// expiry. Before that, the standby does nothing.
func TestLeaseHandover(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	flags := []string{
		"--leader-elect", "--leader-elect-resource-namespace=" + ns, "--leader-elect-resource-name=pod2",
		"--leader-elect-lease-duration=480s", "--leader-elect-renew-deadline=240s",
	}
	holder := func() string { return run(t, ns, "get", "lease", "pod2", "-o", "jsonpath={.spec.holderIdentity}") }

	leader := startController(t, ns, flags...)
	create(t, ns, pod2("web", `replicas: 1`))
	waitReady(t, ns, "pod2/web")
	if err := leader.stop(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM ends the leader with %v, want exit status 0", err)
	}
	if got := holder(); got != "" {
		t.Errorf("the lease is held by %q after the leader stopped", got)
	}

	leader = startController(t, ns, flags...)
	leader.waitLog(t, "Controller started")
	standby := startController(t, ns, flags...)
	standby.waitLog(t, "Found the leader")
	if strings.Contains(standby.log.String(), "Controller started") {
		t.Error("two controllers lead at once")
	}
	_ = leader.stop(syscall.SIGTERM)
	run(t, ns, "scale", "pod2", "web", "--replicas=2")
	waitReady(t, ns, "pod2/web") // within patience, half the duration of the lease
}
