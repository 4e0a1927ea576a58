//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	decide "github.com/pod2/pod2/pkg/pod2"
)

// webhookIsDown makes every request of a kind for pods of the namespace fail, as during the
// outage of an injector, until the returned function is called.
func webhookIsDown(t *testing.T, ns string, operation string) (up func()) {
	t.Helper()
	name := "down-" + ns
	create(t, ns, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: down.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [pods]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 1
`, name, operation, ns))
	up = func() { _, _ = kubectl("delete", "validatingwebhookconfiguration", name, "--ignore-not-found") }
	t.Cleanup(up)
	probe := []string{"create", "-f", "-"}
	if operation == "UPDATE" {
		probe = []string{"label", "pods", "--all", "probe=x"}
	}
	untilRefused(t, ns, "failed calling webhook", probe...)
	return up
}

// untilRefused waits until the API server refuses a kubectl command with these words.
func untilRefused(t *testing.T, ns, words string, args ...string) {
	t.Helper()
	eventually(t, "the request is refused", func(context.Context) (string, error) {
		if out, _ := kubectlWith(t.Context(), plainPod("probe"), append([]string{"-n", ns, "--dry-run=server"}, args...)...); !strings.Contains(out, words) {
			return out, nil
		}
		return "", nil
	})
}

func plainPod(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: x}]}\n", name)
}

// forbid creates a policy that refuses updates in the namespace unless an expression allows
// them. The probe is a kubectl command that the policy must refuse.
func forbid(t *testing.T, ns, groups, resources, expression string, probe ...string) (allow func()) {
	t.Helper()
	name := "forbid-" + ns
	create(t, ns, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [%[2]q], apiVersions: ['*'], operations: [UPDATE], resources: [%[3]s]}]}
  validations: [{expression: %[4]q, message: not in this namespace}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[5]s}}}
`, name, groups, resources, expression, ns))
	allow = func() {
		_, _ = kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", name, "--ignore-not-found")
	}
	t.Cleanup(allow)
	untilRefused(t, ns, "not in this namespace", probe...)
	return allow
}

// threeReplicas creates the Pod2 web with three Ready replicas, and its own controller.
func threeReplicas(t *testing.T, spec string) (ns string) {
	t.Helper()
	ns = newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", "replicas: 3, "+spec))
	waitReady(t, ns, "pod2/web")
	return ns
}

// waitReplaced waits until a new pod has this name.
func waitReplaced(t *testing.T, ns, pod string, was map[string]string) {
	t.Helper()
	eventually(t, pod+" is back", func(context.Context) (string, error) {
		if is := uids(t, ns)[pod]; is == "" || is == was[pod] {
			return "the pod is not replaced", nil
		}
		return "", nil
	})
}

// The most common outage: an injector's webhook does not answer.
func TestAWebhookThatIsDownIsTold(t *testing.T) {
	t.Parallel()
	ns := threeReplicas(t, "")
	up := webhookIsDown(t, ns, "CREATE")
	run(t, ns, "delete", "pod", "web-0", "web-1")
	waitReplicas(t, ns, "web", 1)
	waitCondition(t, ns, "pod2/web", "Ready", `False FailedCreate: Internal error occurred: failed calling webhook "down.example.com"`)
	waitEvent(t, ns, "reason=FailedCreate", "failed calling webhook")
	up()
	run(t, ns, "wait", "--for=condition=Ready", "--timeout=3m", "pod2/web") // the next try may be a minute away
}

// A failed update does not stop other work: a lost replica comes back while others cannot
// be updated.
func TestAnUpdateThatFailsHoldsUpNoCreation(t *testing.T) {
	t.Parallel()
	ns := threeReplicas(t, "updateStrategy: {rollingUpdate: {maxUnavailable: 2}}")
	was := uids(t, ns)
	up := webhookIsDown(t, ns, "UPDATE")
	patchPod2(t, ns, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.11"}]}}}}`)
	run(t, ns, "delete", "pod", "web-0", "--wait=false")
	waitReplaced(t, ns, "web-0", was)
	waitCondition(t, ns, "pod2/web", "Ready", `False FailedUpdate: Internal error occurred: failed calling webhook "down.example.com"`)
	up()
	run(t, ns, "wait", "--for=condition=Ready", "--timeout=3m", "pod2/web") // the next try may be a minute away
}

// If a policy forbids the record of failures, only the terminated pod is kept.
func TestAPolicyThatForbidsTheRecordIsTold(t *testing.T) {
	t.Parallel()
	ns := threeReplicas(t, "")
	was := uids(t, ns)
	allow := forbid(t, ns, "samplecrd.k8s.io", "pod2s", "!('samplecrd.k8s.io/backoff' in object.metadata.?annotations.orValue({}))",
		"annotate", "pod2", "web", "samplecrd.k8s.io/backoff=x")
	fail(t, ns, "web-0")
	run(t, ns, "delete", "pod", "web-1")
	waitCondition(t, ns, "pod2/web", "Ready", "False FailedUpdate")
	waitReplaced(t, ns, "web-1", was)
	if uids(t, ns)["web-0"] != was["web-0"] {
		t.Error("web-0 was deleted, and its failure is not recorded")
	}
	allow()
	waitReady(t, ns, "pod2/web")
}

// A policy may forbid the annotation for Multus.
func TestAPublicationThatIsForbiddenIsTold(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, plainPod("any"))
	allow := forbid(t, ns, "", "pods", "!('k8s.v1.cni.cncf.io/networks' in object.metadata.?annotations.orValue({}))",
		"annotate", "pod", "any", "k8s.v1.cni.cncf.io/networks=x")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 1, networks: [{name: blue}]`))
	waitCondition(t, ns, "pod2/web", "Ready", "False WaitingForAddresses: web-0: its addresses are bound but could not be written into the pod: pods \"web-0\" is forbidden")
	allow()
	waitReady(t, ns, "pod2/web")
}

// If a scale-up is reverted, at most 500 more pods are created than exist at that moment.
func TestAScaleUpIsTakenBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, pod2("web", `replicas: 0`))
	waitReady(t, ns, "pod2/web")
	patchPod2(t, ns, "web", `{"spec":{"replicas":2000,"template":{"spec":{"schedulingGates":[{"name":"example.com/never"}]}}}}`)
	eventually(t, "the scale-up has begun", func(context.Context) (string, error) {
		return strings.TrimPrefix(fmt.Sprint(strings.Contains(c.log.String(), `"Created pod"`)), "true"), nil
	})
	patchPod2(t, ns, "web", `{"spec":{"replicas":0}}`)
	waitReplicas(t, ns, "web", 0)
	if made := strings.Count(c.log.String(), `"Created pod"`); made > 1000 {
		t.Errorf("%d pods were created, want at most 1000", made)
	}
}

const mostMemory = 150 << 10 // KiB

// A template has the size limit of etcd, and an earlier version has served its Pod2. It
// does not use up the controller's memory, whether a quota allows pods or not.
func TestALargeTemplateFitsIntoMemory(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		quota    string
		replicas int
		pods     int
	}{{"without a pod", "0", 500, 0}, {"with pods", "30", 30, 30}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			run(t, ns, "create", "quota", "few", "--hard=pods="+row.quota)
			eventually(t, "the quota is enforced", func(context.Context) (string, error) {
				return strings.TrimPrefix("hard "+run(t, ns, "get", "quota", "few", "-o", "jsonpath={.status.hard.pods}"), "hard "+row.quota), nil
			})
			c := startController(t, ns)
			create(t, ns, pod2("small", `replicas: 0`))
			waitReady(t, ns, "pod2/small")
			before := peak(t, c)
			large := createLarge(t, ns, row.replicas)
			if row.pods > 0 {
				waitReplicas(t, ns, large.Name, int32(row.pods))
			} else {
				waitCondition(t, ns, "pod2/"+large.Name, "Ready", "False FailedCreate")
				time.Sleep(10 * time.Second) // the controller tries again and again
			}
			after := peak(t, c)
			t.Logf("peak memory %d MiB, %d MiB before", after>>10, before>>10)
			if after-before > mostMemory {
				t.Errorf("the template takes %d MiB", (after-before)>>10)
			}
		})
	}
}

// createLarge creates a Pod2 with a template of 0.9 MB, and the revision that an earlier
// version created for it.
func createLarge(t *testing.T, ns string, replicas int) *v1.Pod2 {
	t.Helper()
	p := &v1.Pod2{}
	p.Name, p.Spec.Replicas = "large", new(int32)
	*p.Spec.Replicas = int32(replicas)
	p.Spec.Template.Spec.Containers = append(p.Spec.Template.Spec.Containers, corev1.Container{Name: "c", Image: "registry.k8s.io/pause:3.10", Env: largeEnv()})
	raw, err := json.Marshal(decide.ContentOf(p))
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.AppsV1().ControllerRevisions(ns).Create(t.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "large-legacy", Labels: map[string]string{v1.Pod2Label: "large", v1.PodTemplateHashLabel: "legacy"}},
		Data:       runtime.RawExtension{Raw: raw}, Revision: 1,
	}, metav1.CreateOptions{})
	if err == nil {
		p, err = sample.SamplecrdV1().Pod2s(ns).Create(t.Context(), p, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// largeEnv returns 0.9 MB of variables.
func largeEnv() (env []corev1.EnvVar) {
	for i := range 900 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("x", 1000)})
	}
	return env
}

// peak returns the peak memory of a controller, in KiB.
func peak(t *testing.T, c *controller) int {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("the kernel does not report the peak memory of a process")
	return 0
}
