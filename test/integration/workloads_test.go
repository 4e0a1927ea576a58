//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// admissionPolicy applies the policy of artifacts/ for all tests. It acts only on pods with
// a request, and the pods of other tests have gate and label anyway.
func admissionPolicy(t *testing.T, namespace string) {
	t.Helper()
	needsMutation(t)
	install(t)
	probe := workloadPod("probe", "blue")
	eventually(t, "the admission policy is in force", func(ctx context.Context) (string, error) {
		out, err := kubectlWith(ctx, probe, "create", "-n", namespace, "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.schedulingGates}")
		if !strings.Contains(out, "samplecrd.k8s.io/addresses") {
			return "the probe has the gates " + out, err
		}
		return "", err
	})
}

// needsMutation skips a test of mutating policies on a version of Kubernetes that does not serve them.
func needsMutation(t *testing.T) {
	t.Helper()
	if !mutatingPolicies() {
		t.Skip("the API server does not serve MutatingAdmissionPolicy")
	}
}

// workloadPod is a pod with the one annotation only.
func workloadPod(name, request string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {samplecrd.k8s.io/networks: %q}}
spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`, name, request)
}

func workload(kind, name, spec string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec:
  %s
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}, annotations: {samplecrd.k8s.io/networks: blue}}
    spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`, kind, name, spec, name, name)
}

const job = `---
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    metadata: {annotations: {samplecrd.k8s.io/networks: blue}}
    spec: {restartPolicy: Never, containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`

// The one annotation is enough, for a bare pod and for a Deployment.
func TestAnyPodGetsAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+workloadPod("bare", "blue=10.0.0.99")+workload("Deployment", "web", "replicas: 2"))
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	waitReady(t, ns, "pod/bare")
	held := addresses(t, ns)
	if got := held["bare"]; got != "blue=10.0.0.99/24" || len(held) != 3 {
		t.Errorf("addresses are\n%s", render(held))
	}
	requireUnique(t, ns)
}

// A pod created from the manifest of a running pod has an answer. If no policy refuses it,
// the answer counts as a request for these addresses: the pod waits while the other one
// holds them. Without a request, it gets none.
func TestPodThatBringsAnAnswerWaits(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	startController(t, ns)
	answer := `annotations: {samplecrd.k8s.io/addresses: '{"blue":{"address":"10.0.0.9/24"}}', `
	asks := strings.Replace(workloadPod("asks", "blue"), "annotations: {", answer, 1)
	silent := strings.Replace(asks, ", samplecrd.k8s.io/networks: \"blue\"", "", 1)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+asks+strings.Replace(silent, "asks", "silent", 1))
	waitCondition(t, ns, "pod/silent", bound, "False MissingRequest")
	waitAddresses(t, ns, "asks: blue=10.0.0.9/24") // like a request for blue=10.0.0.9
	create(t, ns, strings.Replace(asks, "asks", "late", 1))
	waitCondition(t, ns, "pod/late", bound, "False AddressInUse: the wanted address 10.0.0.9")
	if got := ledger(t, ns); got != "10.0.0.9 Bound asks" {
		t.Errorf("the AddressBlocks have\n%s", got)
	}
	run(t, ns, "annotate", "pod", "late", "samplecrd.k8s.io/addresses-")
	waitAddresses(t, ns, "asks: blue=10.0.0.9/24\nlate: blue=10.0.0.2/24")
}

// A StatefulSet's replica keeps its address, also when the StatefulSet is scaled.
func TestStatefulSetKeepsAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+
		workload("StatefulSet", "db", "replicas: 3")) // one after the other: .2, .3, .4
	run(t, ns, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	before := render(addresses(t, ns))
	run(t, ns, "delete", "pod", "db-1", "db-2")
	waitAddresses(t, ns, before)
	run(t, ns, "scale", "statefulset", "db", "--replicas=1")
	waitLedger(t, ns, "10.0.0.2 Bound db-0\n10.0.0.3 Reserved db-1\n10.0.0.4 Reserved db-2")
	create(t, ns, workloadPod("other", "blue"))
	waitReady(t, ns, "pod/other")
	run(t, ns, "scale", "statefulset", "db", "--replicas=3")
	waitAddresses(t, ns, before+"\nother: blue=10.0.0.5/24")
	run(t, ns, "delete", "statefulset", "db")
	waitLedger(t, ns, "10.0.0.5 Bound other")
}

// A finished Job's pod releases its address, although the pod object stays.
func TestFinishedJobReturnsItsAddress(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30, reuseDelaySeconds: 0}`)+job)
	run(t, ns, "wait", "--for=condition=Complete", "job/report", "--timeout="+patience.String())
	create(t, ns, workloadPod("next", "blue"))
	waitAddresses(t, ns, "next: blue=10.0.0.2/30")
	if got := run(t, ns, "get", "pods", "-l", "job-name=report", "-o", "jsonpath={.items[*].status.phase}"); got != "Succeeded" {
		t.Errorf("the phase of the Job's pod is %q, want Succeeded", got)
	}
}

// The well-known manifest runs in both versions: the cluster's CronJob controller runs it,
// and its pods get addresses and release them.
func TestCronTabFires(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta1", "v1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+
				cronTab(version, "my-new-cron-object", `cronSpec: "* * * * *", networks: [{name: blue}], replicas: 2`))
			waitReady(t, ns, "crontab/my-new-cron-object")
			run(t, ns, "wait", "--for=jsonpath={.status.lastSuccessfulTime}", "ct/my-new-cron-object", "--timeout="+patience.String())
			pods := run(t, ns, "get", "pods", "-l", "stable.example.com/crontab=my-new-cron-object", "-o",
				`jsonpath={range .items[*]}{.status.phase} {.metadata.annotations.samplecrd\.k8s\.io/addresses}{"\n"}{end}`)
			for _, want := range []string{`Succeeded {"blue":{"address":"10.0.0.2/24"`, `Succeeded {"blue":{"address":"10.0.0.3/24"`} {
				if !strings.Contains(pods, want) {
					t.Errorf("the pods are\n%s\nwant among them %s", pods, want)
				}
			}
			eventually(t, "the addresses are released", func(context.Context) (string, error) {
				if got := ledger(t, ns); strings.Contains(got, "Bound") {
					return "got " + got, nil
				}
				return "", nil
			})
		})
	}
}
