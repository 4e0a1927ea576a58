//go:build integration

package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
)

// injected are ways in which admission adds to pods: the objects that make it do so, a JSON
// path, and its value in a replica.
var injected = []struct{ name, objects, want string }{
	{"a Sidecar", sidecar("mesh", `injectBefore: true, initContainers: [{name: mesh, image: m, restartPolicy: Always}], containers: [{name: logs, image: l, args: [x]}],
  volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}], env: [{name: A, value: a}], networks: [{name: green}]`),
		"{.spec.initContainers[*].name} {.spec.containers[*].name}|mesh c logs"},
	{"the webhook of a service mesh", meshWebhook, "{.spec.initContainers[*].name} {.spec.containers[*].name}|istio-init first c last"},
	{"a LimitRange", `---
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, default: {cpu: 100m, memory: 64Mi}, defaultRequest: {cpu: 50m, memory: 32Mi}}]}
`, "{.spec.containers[*].resources.limits.memory}|64Mi"},
	{"tolerations", injector(`[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'dedicated', operator: 'Exists'}}]`),
		"{.spec.tolerations[?(@.key==\"dedicated\")].operator}|Exists"},
}

func injector(patch string) string {
	return `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: injector-NAMESPACE}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        ` + strings.ReplaceAll(patch, "\n", "\n  ") + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: injector-NAMESPACE}
spec: {policyName: injector-NAMESPACE}
`
}

// meshWebhook calls a webhook that adds containers before and after those of a pod, a volume and a label.
const meshWebhook = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: injector-NAMESPACE}
webhooks:
- name: mesh.example.com
  clientConfig: WEBHOOK
  admissionReviewVersions: [v1]
  sideEffects: None
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`

const meshPatch = `[{"op": "add", "path": "/spec/containers/0", "value": {"name": "first", "image": "i"}},
  {"op": "add", "path": "/spec/containers/-", "value": {"name": "last", "image": "i"}},
  {"op": "add", "path": "/spec/initContainers", "value": [{"name": "istio-init", "image": "i"}]},
  {"op": "add", "path": "/spec/volumes/0", "value": {"name": "certs", "emptyDir": {}}},
  {"op": "add", "path": "/metadata/labels/security.istio.io~1tlsMode", "value": "istio"}]`

// serveWebhook runs a webhook that patches each object, and returns its clientConfig.
func serveWebhook(t *testing.T, patch string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch), Patch: []byte(patch)}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return fmt.Sprintf("{url: %s, caBundle: %s}", server.URL, base64.StdEncoding.EncodeToString(ca))
}

// waitCounted waits for the numbers of Networks and Sidecars, which are written with a delay. Each
// pod has each Sidecar and is Ready.
func waitCounted(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "the Networks count the addresses", func(context.Context) (string, error) {
		want := map[string]int{"blue": 0, "green": 0}
		for _, list := range addresses(t, ns) {
			for name := range want {
				want[name] += strings.Count(list, name+"=")
			}
		}
		got, err := kubectl("-n", ns, "get", "networks", "-o", "jsonpath={.items[*].status.bound}")
		if got != fmt.Sprintf("%d %d", want["blue"], want["green"]) {
			return "they count " + got, err
		}
		return "", err
	})
	eventually(t, "the Sidecars count the pods", func(context.Context) (string, error) {
		pods := strconv.Itoa(len(addresses(t, ns)))
		got, err := kubectl("-n", ns, "get", "sidecars", "-o", "jsonpath={range .items[*]}{.status.matched} {.status.upToDate} {.status.ready}\n{end}")
		if strings.ReplaceAll(got, pods+" "+pods+" "+pods+"\n", "") != "" {
			return "they count " + got, err
		}
		return "", err
	})
}

// The parts that admission adds to a replica cause no write and no replacement. Updates in
// place, adoption and the plan leave them alone.
func TestReplicasKeepWhatAdmissionAdds(t *testing.T) {
	t.Parallel()
	for _, c := range injected {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needsMutation(t)
			install(t)
			ns := newNamespace(t)
			run(t, "", "label", "namespace", ns, "samplecrd.k8s.io/sidecars=enabled")
			controller := startController(t, ns, withMetrics)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+
				strings.NewReplacer("NAMESPACE", ns, "WEBHOOK", serveWebhook(t, meshPatch)).Replace(c.objects))
			t.Cleanup(func() {
				run(t, "", "delete", "--ignore-not-found", "mutatingadmissionpolicy/injector-"+ns, "mutatingadmissionpolicybinding/injector-"+ns, "mutatingwebhookconfiguration/injector-"+ns)
			})
			path, want, _ := strings.Cut(c.want, "|")
			path = "jsonpath=" + path
			eventually(t, c.name+" is in force", func(ctx context.Context) (string, error) {
				got, err := kubectlWith(ctx, webPod(`containers: [{name: c, image: x}]`), "create", "-n", ns, "--dry-run=server", "-f", "-", "-o", path)
				if got != want {
					return "got " + got, err
				}
				return "", err
			})
			manifest := strings.Replace(pod2("web", `replicas: 2`+blue), "{labels: {app: a}}", "{labels: {app: web}}", 1)
			create(t, ns, manifest)
			waitReady(t, ns, "pod2/web")
			// quiet waits for the last writes: slices of DNS names are written once a second.
			quiet := func() {
				t.Helper()
				file := filepath.Join(t.TempDir(), "web.yaml")
				if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the plan is empty", func(context.Context) (string, error) {
					if got, status := planOf(t, ns, file); status != 0 {
						return got, nil
					}
					return "", nil
				})
				waitCounted(t, ns)
				controller.requireQuiet(t, ns, time.Now(), "pod2s.samplecrd.k8s.io,pods")
			}
			requireParts := func(when string) {
				t.Helper()
				for _, pod := range []string{"web-0", "web-1"} {
					if got := run(t, ns, "get", "pod", pod, "-o", path); got != want {
						t.Errorf("%s, %s has %s, want %s", when, pod, got, want)
					}
				}
			}
			requireParts("created")
			before := uids(t, ns)
			quiet()

			setImage(t, ns, "web", "registry.k8s.io/pause:3.11")
			eventually(t, "the image is new", func(context.Context) (string, error) {
				got, err := kubectl("-n", ns, "get", "pods", "-o", `jsonpath={.items[*].spec.containers[?(@.name=="c")].image}`)
				if got != "registry.k8s.io/pause:3.11 registry.k8s.io/pause:3.11" {
					return "got " + got, err
				}
				return "", err
			})
			waitReplicas(t, ns, "web", 2)
			waitReady(t, ns, "pod2/web")
			requireSamePods(t, ns, before)
			requireParts("updated in place")

			manifest = strings.Replace(manifest, "pause:3.10", "pause:3.11", 1)
			// A pod without owner and labels is adopted by comparison with the template.
			run(t, ns, "delete", "pod2", "web", "--cascade=orphan")
			run(t, ns, "patch", "pod", "web-1", "--type=merge", "-p", `{"metadata":{"labels":{"samplecrd.k8s.io/pod2":null,"samplecrd.k8s.io/pod-index":null,"samplecrd.k8s.io/pod-template-hash":null}}}`)
			create(t, ns, manifest)
			waitAdopted(t, ns, "web", 2)
			waitReady(t, ns, "pod2/web")
			requireSamePods(t, ns, before)
			requireParts("adopted")
			quiet()
		})
	}
}
