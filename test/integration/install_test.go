//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// installation applies crd/ and artifacts/, as README.md says, once for all tests that need
// them. TestReadmeCommands shows that they can be removed.
var installation struct {
	sync.Mutex
	there bool
}

func install(t testing.TB) {
	t.Helper()
	installation.Lock()
	defer installation.Unlock()
	if installation.there {
		return
	}
	args := append([]string{"apply"}, manifests(t)...)
	if out, err := kubectl(args...); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	installation.there = true
}

// manifests are the flags of kubectl that name crd/ and artifacts/. On a version of Kubernetes before
// 1.36, docs/reference/compatibility.md leaves out two files.
func manifests(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "artifacts/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no artifacts: %v", err)
	}
	flags := []string{"-f", filepath.Join(root, "crd")}
	for _, file := range files {
		if base := filepath.Base(file); mutatingPolicies() || base != "30-admission-policy.yaml" && base != "33-sidecars.yaml" {
			flags = append(flags, "-f", file)
		}
	}
	return flags
}

// mutatingPolicies says whether the API server serves the kind of 30-admission-policy.yaml
// and 33-sidecars.yaml, as Kubernetes 1.36 does.
var mutatingPolicies = sync.OnceValue(func() bool {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}, "v1")
	return err == nil
})

// asServiceAccount writes a kubeconfig of the installed controller's account, once
// admission knows the kinds of the owners.
func asServiceAccount(t *testing.T) string {
	t.Helper()
	waitOwnersKnown(t)
	token, err := kube.CoreV1().ServiceAccounts("pod2-system").CreateToken(t.Context(), "pod2-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return asAuthInfo(t, func(user *api.AuthInfo) { *user = api.AuthInfo{Token: token.Status.Token} })
}

// asAuthInfo writes a kubeconfig of another user.
func asAuthInfo(t *testing.T, become func(*api.AuthInfo)) string {
	t.Helper()
	return kubeconfigWith(t, func(config *api.Config) {
		for _, user := range config.AuthInfos {
			become(user)
		}
	})
}

// kubeconfigWith writes a changed copy of the administrator's kubeconfig.
func kubeconfigWith(t *testing.T, change func(*api.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The namespace enforces Pod Security `restricted`: its existing pods have passed it.
func TestInstallPassesRestricted(t *testing.T) {
	t.Parallel()
	install(t)
	if got := run(t, "pod2-system", "get", "namespace", "pod2-system", "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`); got != "restricted" {
		t.Errorf("the namespace enforces %q, want restricted", got)
	}
	run(t, "pod2-system", "rollout", "status", "deployment/pod2-controller", "--timeout="+patience.String())
	if got := run(t, "pod2-system", "get", "deployment", "pod2-controller", "-o", "jsonpath={.status.readyReplicas}"); got != "2" {
		t.Errorf("%s replicas are ready, want 2", got)
	}
}

// The pods of the Deployment are created in a dry run. A pod that Pod Security refuses
// shows that it is active.
func TestDeploymentPassesRestricted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, "", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=restricted")
	manifest, err := os.ReadFile(filepath.Join(root, "artifacts/40-deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deployment := parse(t, string(manifest)[:strings.Index(string(manifest), "\n---\n")])
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName("controller")
	run(t, ns, "create", "serviceaccount", "pod2-controller")
	u := newUser(t, ns, "user", "", "pods", "create")
	outcome(t, "the controller's pod", u.createAt(t, pod, podsResource), "")
	unstructured.RemoveNestedField(pod.Object, "spec", "securityContext", "seccompProfile")
	outcome(t, "without seccompProfile", u.createAt(t, pod, podsResource), "violates PodSecurity")
}

// The role suffices for everything that the controller does, including its lease.
func TestRoleSuffices(t *testing.T) {
	t.Parallel()
	install(t)
	ns := newNamespace(t)
	c := startController(t, ns, "--kubeconfig", asServiceAccount(t), "--leader-elect")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+
		"---"+fmt.Sprintf(pod2Manifest, "web", ", replicas: 40, networks: [{name: blue}]")+gatedPod("waits", "red")+
		cronTab("v1", "ct", `cronSpec: "@yearly", networks: [{name: blue}]`))
	waitReady(t, ns, "pod2/web", "crontab/ct")
	run(t, ns, "set", "image", "cronjob/ct", "crontab=changed")
	waitCronJob(t, ns, "ct", image, "my-awesome-cron-image")
	waitCondition(t, ns, "pod/waits", bound, "False NetworkNotFound")
	namesComeAndGo(t, ns)
	run(t, ns, "patch", "pod", "web-0", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Failed"}}`)
	eventually(t, "the failed pod is replaced", func(context.Context) (string, error) {
		return kubectl("-n", ns, "get", "pods", "--field-selector=status.phase=Failed", "-o", "name")
	})
	waitReady(t, ns, "pod2/web")
	run(t, ns, "delete", "pod2/web", "pod2/db", "crontab/ct", "--timeout="+patience.String())
	run(t, ns, "delete", "pods", "--all", "--timeout="+patience.String())
	allowDeletion(t, ns) // the status may still count the pods
	run(t, ns, "delete", "network", "blue", "--timeout="+patience.String())
	waitGone(t, ns, "addressblocks")
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Errorf("the controller ended with %v", err)
	}
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("the controller was refused:\n%s", grep(log, "forbidden"))
	}
	if got := run(t, "pod2-system", "get", "lease", "pod2-controller", "-o", "jsonpath={.spec.holderIdentity}"); got != "" {
		t.Errorf("the lease is still held by %q", got)
	}
}

// An API server before Kubernetes 1.34 cannot stream a list into a watch. The controller
// then sends lists, and the role needs one more verb for each kind.
func TestRoleSufficesWhereListsAreNotStreamed(t *testing.T) {
	t.Parallel()
	install(t)
	ns := newNamespace(t)
	c := startControllerWith(t, ns, []string{"KUBE_FEATURE_WatchListClient=false"}, "--kubeconfig", asServiceAccount(t))
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("the controller was refused:\n%s", grep(log, "forbidden"))
	}
}

// A revision that lost its label has the name that the Pod2 wants. The controller reads it,
// and tries another name.
func TestRevisionNameIsTaken(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", "replicas: 1"))
	waitReady(t, ns, "pod2/web")
	run(t, ns, "label", "controllerrevisions", "-l", "samplecrd.k8s.io/pod2=web", "samplecrd.k8s.io/pod2-")
	run(t, ns, "wait", "--for=jsonpath={.status.collisionCount}=1", "pod2/web", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/web")
}

// namesComeAndGo makes the controller read, create, change and delete Services and
// EndpointSlices.
func namesComeAndGo(t *testing.T, ns string) {
	t.Helper()
	create(t, ns, network("green", `{cidr: 10.1.0.0/24, reuseDelaySeconds: 0}`)+network("teal", `{cidr: 10.2.0.0/24, reuseDelaySeconds: 0}`)+`---
apiVersion: v1
kind: Service
metadata: {name: db-blue}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-green-0}
addressType: IPv4
endpoints: []
`+pod2("db", `replicas: 1, networks: [{name: blue}, {name: green}, {name: teal}]`))
	waitCondition(t, ns, "pod2/db", "DNSPublished", "False NameTaken: Service db-blue already exists")
	waitCondition(t, ns, "pod2/db", "DNSPublished", "; EndpointSlice db-green-0 already exists")
	run(t, ns, "wait", "--for=create", "endpointslice/db-teal-0", "--timeout="+patience.String())
	run(t, ns, "patch", "service", "db-teal", "--type=merge", "-p", `{"spec":{"publishNotReadyAddresses":false}}`)
	run(t, ns, "wait", "--for=jsonpath={.spec.publishNotReadyAddresses}=true", "service/db-teal", "--timeout="+patience.String())
	waitEndpoint(t, ns, "db-teal-0", "db-0", "true true false")
	patchPod2(t, ns, "db", `{"spec":{"networks":[{"name":"blue"}]}}`)
	run(t, ns, "wait", "--for=delete", "endpointslice/db-teal-0", "service/db-teal", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/db")
}

// Users of a namespace get the rights they need through their existing roles.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	install(t)
	ns := newNamespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		run(t, ns, "create", "serviceaccount", role)
		run(t, ns, "create", "rolebinding", role, "--clusterrole="+role, "--serviceaccount="+ns+":"+role)
	}
	for _, c := range []struct{ who, verb, what, want string }{
		{"view", "list", "pod2s", "yes"},
		{"view", "get", "addressblocks", "yes"},
		{"view", "create", "networks", "no"},
		{"edit", "create", "networks", "yes"},
		{"edit", "patch", "pod2s/scale", "yes"},
		{"edit", "create", "crontabs", "yes"},
		{"edit", "patch", "crontabs/scale", "yes"},
		{"edit", "update", "crontabs/status", "no"},
		{"edit", "update", "addressblocks", "no"},
		{"edit", "update", "addressslices", "no"},
		{"view", "list", "addresshistories", "yes"},
		{"edit", "update", "addresshistories", "no"},
		{"edit", "delete", "addresshistories", "no"},
		{"edit", "update", "networks/status", "no"},
		{"edit", "bind", "addressblocks", "no"},
		{"admin", "bind", "addressblocks", "no"},
		{"admin", "update", "networks", "yes"}, // its rules exist
	} {
		eventually(t, fmt.Sprintf("%s may %s %s", c.who, c.verb, c.what), func(ctx context.Context) (string, error) {
			resource, sub, _ := strings.Cut(c.what, "/")
			group := "samplecrd.k8s.io"
			if resource == "crontabs" {
				group = "stable.example.com"
			}
			review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + ns + ":" + c.who,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + ns, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: ns, Verb: c.verb, Group: group, Version: "*", Resource: resource, Subresource: sub,
				},
			}}, metav1.CreateOptions{})
			if err != nil {
				return "", err
			}
			if review.Status.Allowed != (c.want == "yes") {
				return fmt.Sprintf("allowed %t, want %s", review.Status.Allowed, c.want), nil
			}
			return "", nil
		})
	}
}

func grep(text, part string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// The demo's promise for the files: everything in example/ becomes Ready.
func TestExamples(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	run(t, "", "label", "namespace", ns, "samplecrd.k8s.io/sidecars=enabled")
	startController(t, ns)
	files, err := os.ReadDir(filepath.Join(root, "example"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	run(t, ns, "create", "-f", filepath.Join(root, "example"))
	waitReady(t, ns, "network/blue", "network/green", "pod2/web", "crontab/my-new-cron-object")
	run(t, ns, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	run(t, ns, "rollout", "status", "deployment/hello", "--timeout="+patience.String())
	run(t, ns, "wait", "--for=condition=Complete", "job/report", "--timeout="+patience.String())
	requireUnique(t, ns)
}
