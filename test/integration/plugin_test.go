//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plugin runs `kubectl pod2 ...` like a user with the plugin in the PATH. In the returned
// output, hashes, UIDs and times are replaced, because they differ from run to run.
func plugin(t *testing.T, namespace string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"pod2", "--kubeconfig", kubeconfig, "-n", namespace}, args...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/kubectl"), args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), namespace, "NS")
	for _, vary := range [][2]string{
		{`web-[b-z2-9]{10}\b`, "web-HASHHASHHA"}, {`\(uid [^)]*\)`, "(uid UID)"},
		{`(?m)\b[0-9]+[smh]([0-9]+[sm])?$`, "AGE"}, {`(?m)\b[0-9]+s +-$`, "AGE      -"}, {`(?m)^  status ready .*`, "  status ready"},
	} {
		text = regexp.MustCompile(vary[0]).ReplaceAllString(text, vary[1])
	}
	return text, err
}

func requirePlugin(t *testing.T, namespace, want string, args ...string) {
	t.Helper()
	got, err := plugin(t, namespace, args...)
	if err != nil || got != strings.TrimPrefix(want, "\n") {
		t.Errorf("kubectl pod2 %s: %v\n%s\nwant\n%s", strings.Join(args, " "), err, got, want)
	}
}

func pluginRefuses(t *testing.T, namespace, want string, args ...string) {
	t.Helper()
	got, err := plugin(t, namespace, args...)
	if exit := new(exec.ExitError); err == nil || !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasSuffix(got, want) {
		t.Errorf("kubectl pod2 %s: %v\n%s\nwant at the end\n%s", strings.Join(args, " "), err, got, want)
	}
}

// pluginPlan runs `kubectl pod2 plan`, and checks its exit status: 0 if nothing would
// change, 1 if something would, and 2 after an error.
func pluginPlan(t *testing.T, namespace, file string, wantStatus int) string {
	t.Helper()
	got, status := planOf(t, namespace, file)
	if status != wantStatus {
		t.Errorf("kubectl pod2 plan ended with status %d, want %d:\n%s", status, wantStatus, got)
	}
	return got
}

func planOf(t *testing.T, namespace, file string) (output string, status int) {
	t.Helper()
	got, err := plugin(t, namespace, "plan", "-f", file)
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return got, 0
	case errors.As(err, &exit):
		return got, exit.ExitCode()
	}
	t.Fatalf("kubectl pod2 plan: %v\n%s", err, got)
	return "", 0
}

// pluginStatus waits as a user does, and returns the last line of the output.
func pluginStatus(t *testing.T, namespace string) string {
	t.Helper()
	got, err := plugin(t, namespace, "status", "web", "--timeout="+patience.String())
	if err != nil {
		t.Fatalf("kubectl pod2 status: %v\n%s", err, got)
	}
	return tail(got, 1)
}

// The life of a Pod2, with every subcommand.
func TestPlugin(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := ofVersion("web", "%s", `replicas: 2, serviceName: web, networks: [{name: blue, addresses: [10.0.0.9]}]`)
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(version, more string) {
		if err := os.WriteFile(file, []byte(fmt.Sprintf(manifest, version)+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// A plan for a Pod2 and a Network that do not exist yet. It must not create them.
	write("1", network("blue", `{cidr: 10.0.0.0/28}`))
	const first = `
Network NS/blue would be created.

Pod2 NS/web would be created. The first step of the controller would be:
  create revision 1 web-HASHHASHHA
  create web-0 on blue=10.0.0.9: missing
  create web-1 on blue: missing
  status ready
      Ready=False/PodsNotReady(web-0 does not exist yet; web-1 does not exist yet)
      Available=False/MinimumReplicasUnavailable(0 replicas are available (at least 1 required); web-0 does not exist yet; web-1 does not exist yet)
      Progressing=True/Progressing(web-0 does not exist yet; web-1 does not exist yet)
  again in AGE
  create Service web-blue
The first pod, in a server dry run with your rights and not the controller's:
  web-0 would be created
Addresses of the replicas:
  web-0 asks for 10.0.0.9 on blue
  1 replica gets any free address on blue
`
	if got := pluginPlan(t, ns, file, 1); got != strings.TrimPrefix(first, "\n") {
		t.Errorf("kubectl pod2 plan:\n%s\nwant\n%s", got, first)
	}
	if got := run(t, ns, "get", "pod2s,networks,pods", "-o", "name"); got != "" {
		t.Fatalf("plan made %s", got)
	}

	startController(t, ns)
	run(t, ns, "apply", "-f", file)
	if got, want := pluginStatus(t, ns), "Pod2 NS/web is rolled out: 2 of 2 replicas are updated, 2 available"; got != want {
		t.Errorf("status prints %s, want %s", got, want)
	}
	requirePlugin(t, ns, `
NETWORK   ADDRESS    STATE   POD     OWNER      SINCE   FREE-IN
blue      10.0.0.2   Bound   web-1   Pod2/web   AGE      -
blue      10.0.0.9   Bound   web-0   Pod2/web   AGE      -
`, "addresses", "blue")
	requirePlugin(t, ns, "addressblock.samplecrd.k8s.io/blue-10.0.0.0\n", "addresses", "-o", "name")
	requirePlugin(t, ns, "web-1 web-0", "addresses", "-o", "jsonpath={.items[*].spec.entries[*].pod}")
	if got, err := plugin(t, ns, "addresses", "-A"); err != nil || !regexp.MustCompile(`(?m)^NS +blue +10\.0\.0\.9 +Bound +web-0 `).MatchString(got) {
		t.Errorf("kubectl pod2 addresses -A: %v\n%s", err, got)
	}
	if got, err := plugin(t, ns, "version"); err != nil || !regexp.MustCompile(`^Plugin Version: \S+\nServer Version: v1\.\S+\n$`).MatchString(got) {
		t.Errorf("kubectl pod2 version: %v\n%s", err, got)
	}
	settled := func() {
		t.Helper()
		eventually(t, "the plan is empty", func(context.Context) (string, error) {
			got, status := planOf(t, ns, file)
			if want := "Pod2 NS/web would be unchanged, and the controller would do nothing.\nAddresses of the replicas:\n  2 addresses are kept\n"; got != want || status != 0 {
				return fmt.Sprintf("status %d, got %s", status, got), nil
			}
			return "", nil
		})
	}
	settled()

	// The controller does exactly the planned actions, down to the name of the revision.
	write("2", "")
	planned := pluginPlan(t, ns, file, 1)
	if want := "Pod2 NS/web would be configured. The first step of the controller would be:\n  create revision 2 web-HASHHASHHA\n  delete web-1 (uid UID): template changed: template.metadata.annotations[example.com/version] cannot be changed in a running pod\n"; !strings.HasPrefix(planned, want) {
		t.Errorf("plan:\n%s\nwant first\n%s", planned, want)
	}
	run(t, ns, "annotate", "pod2", "web", "kubernetes.io/change-cause=version 2")
	before := uids(t, ns)
	held := render(addresses(t, ns))
	run(t, ns, "apply", "-f", file)
	pluginStatus(t, ns)
	requireVersion(t, ns, "2", 2)
	settled()
	for name, uid := range uids(t, ns) {
		if before[name] == uid {
			t.Errorf("%s was not replaced", name)
		}
	}

	requirePlugin(t, ns, `
REVISION   NAME             ROLE             CHANGE-CAUSE   AGE
1          web-HASHHASHHA   -                <none>         AGE
2          web-HASHHASHHA   current,update   version 2      AGE
`, "history", "web")
	requirePlugin(t, ns, `
# Pod2 NS/web, revision 2 (web-HASHHASHHA)
networks:
- addresses:
  - 10.0.0.9
  name: blue
serviceName: web
template:
  metadata:
    annotations:
      example.com/version: "2"
    labels:
      app: a
  spec:
    containers:
    - image: registry.k8s.io/pause:3.10
      name: c

# Changes since the previous revision:
--- revision 1
+++ revision 2
@@ -6,7 +6,7 @@
 template:
   metadata:
     annotations:
-      example.com/version: "1"
+      example.com/version: "2"
     labels:
       app: a
   spec:
`, "history", "web", "--revision=2")

	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web rolled back to revision 1\n", "undo", "web")
	pluginStatus(t, ns)
	requireVersion(t, ns, "1", 2)
	waitAddresses(t, ns, held)
	pluginRefuses(t, ns, "error: undo Pod2 NS/web: revision 9 not found: choose one of 2, 3\n", "undo", "web", "--to-revision=9")
	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web rolled back to revision 2\n", "undo", "web", "--to-revision=2")
	pluginStatus(t, ns)
	requireVersion(t, ns, "2", 2)
	settled()

	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web paused\n", "pause", "web")
	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web already paused\n", "pause", "web")
	pluginRefuses(t, ns, "its updates are paused: run `kubectl pod2 resume web` first\n", "restart", "web")
	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web image updated\n", "set", "image", "web", "c=registry.k8s.io/pause:3.9")
	waitCondition(t, ns, "pod2/web", "Progressing", "Unknown Paused")
	pluginRefuses(t, ns, "Paused (run `kubectl pod2 resume web` to continue): 0 of 2 replicas are updated, 2 available\nerror: timed out after 3s waiting for Pod2 NS/web\n",
		"status", "web", "--timeout=3s")
	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web resumed\n", "resume", "web")
	pluginStatus(t, ns)
	if got := run(t, ns, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}"); got != "registry.k8s.io/pause:3.9 registry.k8s.io/pause:3.9" {
		t.Errorf("images are %s", got)
	}
	pluginRefuses(t, ns, "error: set the image of Pod2 NS/web: the template has no container \"d\"; it has c\n", "set", "image", "web", "d=x")

	before = uids(t, ns)
	requirePlugin(t, ns, "pod2.samplecrd.k8s.io/web restarted\n", "restart", "web")
	pluginStatus(t, ns)
	for name, uid := range uids(t, ns) {
		if before[name] == uid {
			t.Errorf("%s was not restarted", name)
		}
	}
	waitAddresses(t, ns, held)

	run(t, ns, "scale", "pod2", "web", "--replicas=1")
	pluginStatus(t, ns)
	eventually(t, "the address of web-1 is reserved", func(context.Context) (string, error) {
		got, err := plugin(t, ns, "addresses", "--map")
		if want := `blue 10.0.0.0/28   1 bound, 1 reserved, 0 resting, 11 free
       10.0.0.0  xx=......#.....x________________________________________________

`; !strings.HasPrefix(got, want) {
			return "got " + got, err
		}
		return "", err
	})
}

// The exit status tells a script that an update makes no progress.
func TestPluginStatusFails(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 1, progressDeadlineSeconds: 2, networks: [{name: nowhere}]`))
	pluginRefuses(t, ns, "error: Pod2 NS/web exceeded its progress deadline: no progress for 2 seconds: "+
		"Network nowhere does not exist: new replicas stay unscheduled until it is created\n", "status", "web", "--timeout="+patience.String())
	pluginRefuses(t, ns, "error: get Pod2 NS/db: pod2s.samplecrd.k8s.io \"db\" not found\n", "status", "db")
}

// A plan reports the refusals of the API server, and the pod that holds a wanted address.
// It does not take another owner's pod for a replica.
func TestPluginPlanWarns(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/28}`)+pod2("db", `networks: [{name: blue, addresses: [10.0.0.9]}]`))
	waitReady(t, ns, "pod2/db")
	file := filepath.Join(t.TempDir(), "web.yaml")
	plan := func(spec string, wantStatus int) string {
		if err := os.WriteFile(file, []byte(pod2("web", spec)), 0o600); err != nil {
			t.Fatal(err)
		}
		return pluginPlan(t, ns, file, wantStatus)
	}
	for _, c := range []struct {
		spec, want string
		status     int
	}{
		{`networks: [{name: blue, addresses: [10.0.0.9]}]`, "web-0 asks for 10.0.0.9 on blue, which db-0 has (Bound, owner Pod2/db)", 1},
		{`replicas: -1`, "spec.replicas: Invalid value: -1", 2},
		{`replica: 1`, "field not declared in schema", 2},
		{`networks: [{name: blue, addresses: [10.0.0.300]}]`, "must be an IP address", 2},
	} {
		if got := plan(c.spec, c.status); !strings.Contains(got, c.want) {
			t.Errorf("plan of %s:\n%s\nwant %q in it", c.spec, got, c.want)
		}
	}
	create(t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}")
	if got := plan(`replicas: 1`, 1); !strings.Contains(got, "Ready=False/NameTaken(") {
		t.Errorf("plan where the name is taken:\n%s", got)
	}
}

// A plan finds faults that the API server accepts in a Pod2 and refuses in pods: the
// template, the service account, Pod Security, quota. It creates no pod.
func TestPluginPlanTriesTheFirstPod(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, "", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=baseline")
	const title = "The first pod, in a server dry run with your rights and not the controller's:\n  web-0 "
	file := filepath.Join(t.TempDir(), "web.yaml")
	plan := func(spec string) string {
		t.Helper()
		manifest := "apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\nspec: {replicas: 4, template: {metadata: {labels: {app: a}}, spec: {" + spec + "}}}\n"
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(pluginPlan(t, ns, file, 1), title)
		return got
	}
	const container = `containers: [{name: c, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: 100m}}}]`
	for _, c := range []struct{ spec, want string }{
		{container, "would be created\n"},
		{container + ", serviceAccountName: nobody", `would be refused: pods "web-0" is forbidden: error looking up service account NS/nobody: serviceaccount "nobody" not found`},
		{container + ", hostPID: true", `would be refused: pods "web-0" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`},
		{container + ", priorityClassName: nowhere", `would be refused: pods "web-0" is forbidden: no PriorityClass with name nowhere was found`},
		{container + ", volumes: [{name: v, emptyDir: {}, configMap: {name: x}}]", `would be refused: Pod "web-0" is invalid: spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type`},
	} {
		if got := plan(c.spec); !strings.HasPrefix(got, c.want) {
			t.Errorf("plan of %s: got\n%s\nwant %s", c.spec, got, c.want)
		}
	}
	run(t, ns, "create", "quota", "compute", "--hard=pods=10,requests.cpu=350m")
	eventually(t, "the quota has counted the pods", func(context.Context) (string, error) {
		if got, want := plan(container), "would be created\n  quota compute has room for 3 of the 4 replicas to be created (requests.cpu: 350m left, 100m each)\n"; got != want {
			return "got " + got, nil
		}
		return "", nil
	})
	if got := plan(strings.Replace(container, "100m", "400m", 1)); !strings.HasPrefix(got, "would be refused: pods \"web-0\" is forbidden: exceeded quota: compute, requested: requests.cpu=400m") {
		t.Errorf("plan above the quota: %s", got)
	}
	if got := run(t, ns, "get", "pods,pod2s", "-o", "name"); got != "" {
		t.Errorf("plan made %s", got)
	}
}

// kubectl completes arguments of `kubectl pod2` with the help of a program next to the
// plugin.
func TestPluginCompletes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, pod2("web", `replicas: 0`))
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/kubectl"), "__complete", "pod2", "undo", "-n", ns, "")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "web\n") {
		t.Errorf("completion: %v\n%s", err, out)
	}
}
