package plans

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	"github.com/pod2/pod2/pkg/reconcile"
)

// The schema of a Pod2Plan has no bounds, so a plan without this check could use all memory of the server.
func TestBoundsOfAPod2(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, row := range []struct{ spec, at, want string }{
		{"replicas: 100000", "", ""},
		{"replicas: 100001", "spec.replicas", "must be from 0 to 100000"},
		{"replicas: -1", "spec.replicas", "must be from 0 to "},
		{"reserveOrdinals: [" + strings.Repeat("1, ", 1025) + "]", "spec.reserveOrdinals", "must have at most 1024 items"},
		{"reserveOrdinals: [1, 1]", "spec.reserveOrdinals[1]", "Duplicate value"},
		{"networks: [{name: blue, interface: net7, addresses: [10.0.0.2]}, {name: red}]", "", ""},
		{"networks: [" + strings.Repeat("{name: blue}, ", 17) + "]", "spec.networks", "must have at most 16 items"},
		{"networks: [{name: " + long + "}]", "spec.networks[0].name", "may not be more than 63 bytes"},
		{"networks: [{name: blue, interface: net4567890123456}]", "spec.networks[0].interface", "may not be more than 15 bytes"},
		{"networks: [{name: blue, addresses: [" + strings.Repeat("10.0.0.2, ", 1025) + "]}]", "spec.networks[0].addresses", "must have at most 1024 items"},
		{"networks: [{name: blue, addresses: [here]}]", "spec.networks[0].addresses[0]", "must be an IP address"},
		{"volumeClaimTemplates: [" + claim("data") + "]", "", ""},
		{"volumeClaimTemplates: [{}]", "spec.volumeClaimTemplates", "must have metadata.name"},
		{"volumeClaimTemplates: [" + claim(long) + "]", "spec.volumeClaimTemplates[0].metadata.name", "must be no more than 63 characters"},
		{"volumeClaimTemplates: [" + strings.Repeat(claim("data")+", ", 9) + "]", "spec.volumeClaimTemplates", "must have at most 8 items"},
		{rolling("maxSurge: 100000, maxUnavailable: 100%, partition: 200000"), "", ""},
		{rolling("maxSurge: 2147483647"), "spec.updateStrategy.rollingUpdate.maxSurge", "must be a number from 0 to 100000"},
		{rolling("maxSurge: 2000000%"), "spec.updateStrategy.rollingUpdate.maxSurge", "must be a number from 0 to 100000"},
		{rolling("maxUnavailable: -1"), "spec.updateStrategy.rollingUpdate.maxUnavailable", "must be a number from 0 to 100000"},
		{rolling("partition: 200001"), "spec.updateStrategy.rollingUpdate.partition", "must be from 0 to 200000"},
		{"revisionHistoryLimit: -1", "spec.revisionHistoryLimit", "must be from 0 to "},
		{"ordinals: {start: 2147483647}", "spec.ordinals.start", "must be from 0 to 100000"},
		{"ordinals: {start: -5}", "spec.ordinals.start", "must be from 0 to "},
		{"progressDeadlineSeconds: -1", "spec.progressDeadlineSeconds", "must be from 1 to 86400"},
		{"replicas: null, minReadySeconds: null", "", ""}, // the defaults
		{"serviceName: Web", "spec.serviceName", "must match"},
		{"podManagementPolicy: Random", "spec.podManagementPolicy", "must be one of"},
		{"copies: 1", "", `unknown field "copies"`},
	} {
		requireErrors(t, fmt.Sprintf("%.40s", row.spec), pod2Of("web", row.spec), row.at, row.want)
	}
	requireErrors(t, "a long name", pod2Of(long, "replicas: 1"), "metadata", "at most 57 characters")
	requireErrors(t, "no name", pod2Of(`""`, "replicas: 1"), "metadata.name", "name the Pod2")
	requireErrors(t, "no template", "{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: web}, spec: {replicas: 1}}", "spec.template.spec.containers", "Required")
	requireErrors(t, "another case", pod2Of("web", "REPLICAS: 100001"), "spec.replicas", "must be from 0 to 100000")
	requireErrors(t, "a large one", pod2Of("web", "serviceName: "+strings.Repeat("x", 2<<20)), "", "may not be more than")
	requireErrors(t, "a status", strings.Replace(pod2Of("web", "replicas: 1"), "{", "{status: {conditions: [{type: Ready}]}, ", 1), "", "")
}

func pod2Of(name, spec string) string {
	return fmt.Sprintf("{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: %s}, spec: {template: {spec: {containers: [{name: app, image: nginx}]}}, %s}}", name, spec)
}

func rolling(bounds string) string { return "updateStrategy: {rollingUpdate: {" + bounds + "}}" }

func claim(name string) string {
	return "{metadata: {name: " + name + "}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
}

// requireErrors reads a Pod2. It must be refused with this text, about this field below
// spec.pod2, or be accepted if the text is empty.
func requireErrors(t *testing.T, name, pod2, at, want string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(pod2))
	if err != nil {
		t.Fatal(err)
	}
	_, errs := read(t.Context(), raw, "default")
	if want == "" {
		if len(errs) > 0 {
			t.Errorf("%s: refused: %v", name, errs)
		}
		return
	}
	path := field.NewPath("spec", "pod2").String()
	if at != "" {
		path += "." + at
	}
	for _, err := range errs {
		if err.Field == path && strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("%s: got %.400v, want %s: %s", name, errs, path, want)
}

// The server computes nothing for a client that is gone, whether it went before the plan
// had the turn or while the server read the cluster.
func TestClientThatIsGone(t *testing.T) {
	raw, err := yaml.YAMLToJSON([]byte(pod2Of("web", "replicas: 1")))
	if err != nil {
		t.Fatal(err)
	}
	plan := &view.Pod2Plan{Spec: view.Pod2PlanSpec{Pod2: runtime.RawExtension{Raw: raw}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the turn is free and the context has ended, so select chooses
		if _, err := New(reconcile.Clients{}).Create(ctx, plan, nil, nil); !apierrors.IsTimeout(err) && !apierrors.IsTooManyRequests(err) {
			t.Fatalf("gone before: the error is %v", err)
		}
	}
	ctx, cancel = context.WithCancel(request.WithNamespace(t.Context(), "default"))
	defer cancel()
	clients := reconcile.Clients{Kube: kubefake.NewClientset(), Sample: samplefake.NewSimpleClientset()}
	if _, err := New(clients).Create(ctx, plan, nil, nil); err != nil {
		t.Fatal(err)
	}
	clients.Kube.(*kubefake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return false, nil, nil
	})
	if _, err := New(clients).Create(ctx, plan, nil, nil); !apierrors.IsTimeout(err) {
		t.Errorf("gone meanwhile: the error is %v", err)
	}
}
