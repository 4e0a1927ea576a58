//go:build integration && chaos

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/test/chance"
)

// Chaos tests use the cluster alone and run one after the other: `make chaos`.
// CHAOS_ACTIONS is the number of users' actions. They happen about once a second, which is
// frequent for one namespace, so 3,600 take an hour.
func actions(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("CHAOS_ACTIONS"))
	if err != nil {
		t.Fatalf("CHAOS_ACTIONS=%q: want a number", os.Getenv("CHAOS_ACTIONS"))
	}
	return n
}

// churn is a namespace in which users do everything that they may, with their own clients.
// The clients ignore errors, and no client repeats a failed request.
type churn struct {
	t         *testing.T
	namespace string
	dice      *rand.Rand
	monitor   *monitor
	refused   int
}

const (
	cidr  = "10.0.0.0/27"
	surge = 2 // of web
	// patient is a Pod2 of TestChaosUnreliableServer whose pods no user deletes: S5 holds
	// only for changes by one controller.
	patient = "patient"
)

func newChurn(t *testing.T) *churn {
	t.Helper()
	c := &churn{
		t: t, namespace: newNamespace(t), dice: rand.New(rand.NewPCG(chance.Seed(t), 0)),
		monitor: newMonitor(nearlyFull(cidr, "10.0.0.9"), "db"),
	}
	c.monitor.updated = updated{patient, 3, 2 * time.Second}
	c.monitor.asked(patient, 3)
	c.monitor.asked("db", 5)
	c.monitor.asked("web", 5+surge)
	c.monitor.start(t, c.namespace)
	create(t, c.namespace, network("blue", `{cidr: 10.0.0.0/27, exclude: [10.0.0.9], reuseDelaySeconds: 0}`)+
		network("green", `{cidr: 10.0.0.0/27, exclude: [10.0.0.9], reuseDelaySeconds: 1}`)+
		pod2("db", `replicas: 5, networks: [{name: blue, addresses: [10.0.0.20]}, {name: green}], updateStrategy: {rollingUpdate: {maxUnavailable: 2}}`)+
		pod2("web", fmt.Sprintf(`replicas: 5, networks: [{name: green}], updateStrategy: {rollingUpdate: {maxSurge: %d}}`, surge)))
	return c
}

// act performs one action.
func (c *churn) act() {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	spec := func(name, patch string) error { return c.patch(ctx, name, patch) }
	var err error
	switch n := c.dice.IntN(20); {
	case n < 2:
		err = c.scale(ctx, c.dice.IntN(11))
	case n < 3:
		err = spec("web", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"%d"}}}}}`, c.dice.IntN(4)))
	case n < 4:
		err = spec("db", fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"example.com/db:%d"}]}}}}`, c.dice.IntN(4)))
	case n < 5:
		err = spec(chance.Pick(c.dice, "web", "db"), fmt.Sprintf(`{"spec":{"paused":%t}}`, chance.One(c.dice, 3)))
	case n < 6:
		err = kube.CoreV1().Services(c.namespace).Delete(ctx, chance.Pick(c.dice, "web-green", "db-blue"), metav1.DeleteOptions{})
	case n < 10:
		err = c.createPod(ctx)
	case n < 13:
		err = c.deleteSome(ctx, "bare-")
	default:
		err = c.deleteSome(ctx, "")
	}
	if err != nil {
		c.refused++
	}
}

func (c *churn) patch(ctx context.Context, name, patch string) error {
	_, err := sample.SamplecrdV1().Pod2s(c.namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// scale changes the replicas of web, and informs the monitor.
func (c *churn) scale(ctx context.Context, replicas int) error {
	answered := c.monitor.asked("web", replicas+surge)
	err := c.patch(ctx, "web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	if err == nil {
		answered(time.Now())
	}
	return err
}

// mustScale is scale without faults.
func (c *churn) mustScale(replicas int) {
	c.t.Helper()
	if err := c.scale(c.t.Context(), replicas); err != nil {
		c.t.Fatal(err)
	}
}

func (c *churn) createPod(ctx context.Context) error {
	request := chance.Pick(c.dice, "blue", "green", "blue, green", "blue=10.0.0.21")
	_, err := kube.CoreV1().Pods(c.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("bare-%d", c.dice.IntN(12)), Labels: map[string]string{"samplecrd.k8s.io/managed": "true"},
			Annotations: map[string]string{"samplecrd.k8s.io/networks": request},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "samplecrd.k8s.io/addresses"}},
			Containers:      []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}},
		},
	}, metav1.CreateOptions{})
	return err
}

// deleteSome deletes a pod, or sometimes lets a pod without owner fail.
func (c *churn) deleteSome(ctx context.Context, prefix string) error {
	pods, err := kube.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	pod := &pods.Items[c.dice.IntN(len(pods.Items))]
	if strings.HasPrefix(pod.Name, patient+"-") {
		return nil
	}
	if prefix != "" && len(pod.OwnerReferences) > 0 {
		return nil
	}
	if len(pod.OwnerReferences) == 0 && chance.One(c.dice, 2) {
		_, err = kube.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Failed"}}`, pod.UID), metav1.PatchOptions{}, "status")
		return err
	}
	return kube.CoreV1().Pods(c.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// settle stops the users, and requires that everything is correct in the end.
func (c *churn) settle() {
	t, ns := c.t, c.namespace
	t.Helper()
	c.mustScale(8)
	run(t, ns, "patch", "pod2/web", "pod2/db", "--type=merge", "-p", `{"spec":{"paused":false}}`)
	for name, pod := range listPods(t, ns) {
		if len(pod.OwnerReferences) == 0 {
			deletePod(t, ns, name)
		}
	}
	for _, name := range []string{"db", "web"} {
		eventually(t, name+" is complete", func(context.Context) (string, error) {
			p := getPod2(t, ns, name)
			why := ""
			for _, condition := range p.Status.Conditions {
				if condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != p.Generation {
					why += fmt.Sprintf("%s is %s of generation %d: %s: %s; ", condition.Type, condition.Status, condition.ObservedGeneration, condition.Reason, condition.Message)
				}
			}
			return why, nil
		})
	}
	eventually(t, "the AddressBlocks and the pods agree", func(context.Context) (string, error) { return ledgerDiffers(t, ns), nil })
	waitNames(t, ns)
	t.Logf("the API server refused %d requests of users", c.refused)
}

// kill -9 of controllers, of the API server and of etcd, which syncs its writes to disk,
// while users continue.
func TestChaosKills(t *testing.T) {
	c := newChurn(t)
	controllers := []*controller{startController(t, c.namespace), startController(t, c.namespace)}
	components := []*component{findComponent(t, "kube-apiserver"), findComponent(t, "etcd")}
	supervise(t, "kube-scheduler", "kube-controller-manager", "kwok-controller")
	kills, begin := 0, time.Now()
	const every = 40 // actions
	for i := range actions(t) {
		c.act()
		if i%every != every-1 {
			continue
		}
		kills++
		if which := kills % 4; which < 2 {
			_ = controllers[which].stop(syscall.SIGKILL)
			controllers[which] = startController(t, c.namespace)
		} else {
			go func() { // a user's request arrives at this moment
				for range every / 4 {
					_, _ = kube.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
				}
			}()
			components[which-2].killAndRestart(t)
		}
	}
	t.Logf("%d actions and %d kills in %s", actions(t), kills, time.Since(begin).Round(time.Second))
	c.settle()
}

// The watches of two controllers end 1,000 times. Some new watches fail with "too old", so
// the controller lists again. No change is lost for good.
func TestChaosWatchLosses(t *testing.T) {
	c := newChurn(t)
	p := startProxy(t, rand.New(rand.NewPCG(c.dice.Uint64(), 0)))
	p.expired = true
	for range 2 {
		startBehind(t, p, c.namespace).waitLog(t, "Controller started")
	}
	losses, begin := 0, time.Now()
	for losses < 1000 {
		c.act()
		losses += p.cut()
	}
	t.Logf("%d watches lost in %s", losses, time.Since(begin).Round(time.Second))
	c.settle()
}

// A third of all requests except watches fail, some after they were carried out. The
// controller is safe all the time, converges in the end, and does not retry more than
// needed. The queue's backoff, not the server, limits the cost of a fault.
func TestChaosUnreliableServer(t *testing.T) {
	c := newChurn(t)
	create(t, c.namespace, pod2(patient, "replicas: 3, minReadySeconds: 2, updateStrategy: {inPlace: Never}"))
	p := startProxy(t, rand.New(rand.NewPCG(c.dice.Uint64(), 0)))
	controller := startBehind(t, p, c.namespace)
	controller.waitLog(t, "Controller started")
	p.set(func(p *proxy) { p.unreliable = true })
	begin := time.Now()
	for i := range actions(t) / 2 {
		c.act()
		if i%10 == 0 { // often while replicas of the previous update are not yet available
			_ = c.patch(t.Context(), patient, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"%d"}}}}}`, i))
		}
	}
	_, faults := p.counted()
	t.Logf("%s of faults: %s", time.Since(begin).Round(time.Second), faults)

	// The users have stopped, but the faults continue. Every retry is now due to a fault.
	c.monitor.release()
	run(t, c.namespace, "delete", "pod2s.samplecrd.k8s.io", patient)
	c.mustScale(0)
	run(t, c.namespace, "patch", "pod2/web", "--type=merge", "-p", `{"spec":{"paused":false}}`)
	run(t, c.namespace, "delete", "pod", "--all", "--wait=false")
	eventually(t, "web has no pods", func(context.Context) (string, error) {
		return run(t, c.namespace, "get", "pods", "-l", "samplecrd.k8s.io/pod2=web", "-o", "name"), nil
	})
	before, _ := p.counted()
	c.mustScale(10)
	waitReady(t, c.namespace, "pod2/web")
	after, _ := p.counted()
	// Creating and publishing ten pods, with AddressBlocks, status, names and events, takes
	// some 60 writes without a fault.
	t.Logf("%d writes for ten replicas on a Network, a third of them refused", after-before)
	if after-before > 180 {
		t.Errorf("%d writes are too many: want at most 180", after-before)
	}
	p.set(func(p *proxy) { p.unreliable = false })
	c.settle()
	// Events are sent in the background. A refused event is repeated after ten seconds, and
	// later events wait for it.
	eventually(t, "all events are sent", func(context.Context) (string, error) {
		late, _ := writes(t, c.namespace, time.Now().Add(-15*time.Second))
		return strings.Join(late, "\n"), nil
	})
	controller.requireQuiet(t, c.namespace, time.Now(), "pod2s,networks")
}
