//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pod2/pod2/test/apiserver"
)

var (
	podsGVR     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	networksGVR = schema.GroupVersionResource{Group: "samplecrd.k8s.io", Version: "v1", Resource: "networks"}
	pod2sGVR    = schema.GroupVersionResource{Group: "samplecrd.k8s.io", Version: "v1", Resource: "pod2s"}
)

// refusesAll is a policy that refuses an operation on a resource in one namespace.
func refusesAll(operation, group, resource string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: rules-{ns}}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: ["` + group + `"], apiVersions: ["*"], operations: [` + operation + `], resources: [` + resource + `]}]}
  validations: [{expression: "false", message: "not here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: rules-{ns}}
spec:
  policyName: rules-{ns}
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {ns}}}}
`
}

const quotaOfOnePod = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "1"}}
`

const webhookThatIsDown = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: rules-{ns}}
webhooks:
- name: injector.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {ns}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
`

// The server in memory refuses requests in admission like the real one: with the same code,
// reason and message, and in the same order of preconditions and policies.
func TestSimulatedAdmissionIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	refusal := func(kind string) func(*apiserver.Server, string) {
		return func(s *apiserver.Server, ns string) {
			s.Admit(apiserver.Rule{On: []string{kind}, In: ns, Refuse: apiserver.Policy("not here", nil)})
		}
	}
	createPod := func(name string) func(context.Context, dynamic.ResourceInterface, []string) error {
		return func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error {
			_, err := c.Create(ctx, manifest(podNamed(name)), metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	patch := func(name, body string) func(context.Context, dynamic.ResourceInterface, []string) error {
		return func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error {
			_, err := c.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	for _, test := range []struct {
		name      string
		resource  schema.GroupVersionResource
		there     string // the existing object
		real      string
		simulated func(s *apiserver.Server, ns string)
		do        func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error
		then      func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error // another request, if not nil
	}{
		{"a policy, create", podsGVR, podNamed("there"), refusesAll("CREATE", "", "pods"), refusal("POST pods"), createPod("a"), createPod("there")},
		{"a policy, delete", podsGVR, podNamed("a"), refusesAll("DELETE", "", "pods"), refusal("DELETE pods"), func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error {
			return c.Delete(ctx, "a", metav1.DeleteOptions{DryRun: dryRun})
		}, nil},
		{"a policy, patch", pod2sGVR, pod2("web", "replicas: 0"), refusesAll("UPDATE", "samplecrd.k8s.io", "pod2s"), refusal("PATCH pod2s"),
			patch("web", `{"metadata":{"annotations":{"a":"b"}}}`), patch("web", `{"metadata":{"resourceVersion":"7","annotations":{"a":"b"}}}`)},
		{"a policy, put", networksGVR, "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}",
			refusesAll("UPDATE", "samplecrd.k8s.io", "networks"), refusal("PUT networks"), func(ctx context.Context, c dynamic.ResourceInterface, dryRun []string) error {
				n, err := c.Get(ctx, "blue", metav1.GetOptions{})
				if err != nil {
					return err
				}
				n.SetFinalizers([]string{"samplecrd.k8s.io/in-use"})
				_, err = c.Update(ctx, n, metav1.UpdateOptions{DryRun: dryRun})
				return err
			}, nil},
		{"a quota", podsGVR, podNamed("there"), quotaOfOnePod, func(s *apiserver.Server, ns string) { s.Admit(apiserver.Quota(ns, "pods", 1)) }, createPod("a"), createPod("there")},
		{"a webhook is down", podsGVR, podNamed("there"), webhookThatIsDown, func(s *apiserver.Server, ns string) {
			s.Break(apiserver.Fault{On: []string{"POST pods", "PATCH pods"}, In: ns, Error: apiserver.WebhookIsDown("injector.example.com")})
		}, createPod("a"), patch("there", `{"metadata":{"resourceVersion":"7","annotations":{"a":"b"}}}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			server := apiserver.NewServer()
			both := []dynamic.ResourceInterface{
				dynamic.NewForConfigOrDie(config).Resource(test.resource).Namespace(ns),
				dynamic.NewForConfigOrDie(server.Config("test")).Resource(test.resource).Namespace(ns),
			}
			for _, c := range both {
				if _, err := c.Create(t.Context(), manifest(test.there), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			rules := strings.ReplaceAll(test.real, "{ns}", ns)
			create(t, ns, rules)
			t.Cleanup(func() {
				if out, err := kubectlWith(context.Background(), rules, "-n", ns, "delete", "--ignore-not-found", "-f", "-"); err != nil {
					t.Error(out)
				}
				// The policy stays in force for a moment, and would prevent the sweep of
				// the namespace.
				for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
					if err := test.do(context.Background(), both[0], []string{metav1.DryRunAll}); err == nil || !strings.Contains(err.Error(), "rules-") {
						break
					}
				}
			})
			test.simulated(server, ns)
			eventually(t, "the rule is in force", func(ctx context.Context) (string, error) {
				// A new quota refuses all pods until its controller has counted them. If the controller's cache lags,
				// it counts too few, and counts again only minutes later.
				err := test.do(ctx, both[0], []string{metav1.DryRunAll})
				if err == nil && test.real == quotaOfOnePod {
					run(t, ns, "patch", "quota", "few", "--subresource=status", "--type=merge", "-p", `{"status":{"used":{"pods":"1"}}}`)
				}
				if err == nil || strings.Contains(err.Error(), "status unknown for quota") {
					return fmt.Sprintf("not yet: %v", err), nil
				}
				return "", nil
			})
			for _, do := range []func(context.Context, dynamic.ResourceInterface, []string) error{test.do, test.then} {
				if do == nil {
					continue
				}
				var answers []string
				for _, c := range both {
					answers = append(answers, refusedAs(do(t.Context(), c, nil), ns))
				}
				if answers[0] != answers[1] {
					t.Errorf("the real server:\n%s\nthe simulated one:\n%s", answers[0], answers[1])
				}
			}
		})
	}
}

// refusedAs returns an error without the names of this test, and without the address of a
// webhook.
func refusedAs(err error, ns string) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return fmt.Sprint(err)
	}
	s := status.Status()
	message, _, _ := strings.Cut(strings.ReplaceAll(s.Message, "rules-"+ns, "rules"), ": Post ")
	return fmt.Sprintf("%d %s: %s", s.Code, s.Reason, message)
}

func podNamed(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {schedulerName: none, containers: [{name: c, image: registry.k8s.io/pause}]}"
}

func manifest(text string) *unstructured.Unstructured {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: object}
}
