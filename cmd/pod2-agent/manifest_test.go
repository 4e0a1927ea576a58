//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/pkg/agent/sysctl"
)

// manifest returns the objects of a kind in artifacts/agent/daemonset.yaml.
func manifest[T any](t *testing.T, kind string) []T {
	t.Helper()
	return manifestOf[T](t, "daemonset.yaml", kind)
}

func manifestOf[T any](t *testing.T, file, kind string) []T {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../artifacts/agent", file))
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	for _, document := range strings.Split(string(content), "\n---\n") {
		if !strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			continue
		}
		var object T
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		list = append(list, object)
	}
	if len(list) == 0 {
		t.Fatalf("no %s", kind)
	}
	return list
}

// The agent may read the objects that it watches, and change nothing.
func TestRolesAreReadOnly(t *testing.T) {
	var got []string
	add := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			got = append(got, fmt.Sprintf("%s %s %s: %s", namespace, strings.Join(r.APIGroups, ","), strings.Join(r.Resources, ","), strings.Join(r.Verbs, ",")))
		}
	}
	for _, r := range manifest[rbacv1.ClusterRole](t, "ClusterRole") {
		add("*", r.Rules)
	}
	for _, r := range manifest[rbacv1.Role](t, "Role") {
		add(r.Namespace, r.Rules)
	}
	if got, want := strings.Join(got, "\n"), `* samplecrd.k8s.io addressslices: list,watch
*  pods: list,watch
*  nodes: list,watch
default discovery.k8s.io endpointslices: list,watch`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The DaemonSet probes the addresses that the agent serves, and mounts the paths it uses.
func TestDaemonSet(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	pod := manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec
	c := pod.Containers[0]
	o, err := parseOptions(c.Args)
	if err != nil {
		t.Fatal(err)
	}
	probe := func(p *corev1.Probe) string {
		get := p.HTTPGet
		return "http://" + net.JoinHostPort(get.Host, get.Port.String()) + get.Path
	}
	if got, want := probe(c.ReadinessProbe)+" "+probe(c.LivenessProbe), "http://"+o.healthAddress+"/readyz http://"+o.healthAddress+"/healthz"; got != want {
		t.Errorf("probes: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf(":%d", c.Ports[0].ContainerPort), o.metricsAddress; got != want {
		t.Errorf("metrics: got %s, want %s", got, want)
	}
	for _, dir := range []string{o.netnsDir, filepath.Dir(o.socket), filepath.Dir(o.bpfDir)} {
		if !strings.Contains(mounts(pod), "agent: "+dir+" at "+dir+" ") {
			t.Errorf("%s is not mounted", dir)
		}
	}
}

// The plugin's directory is writable for the container that installs it, and for no other.
func TestMounts(t *testing.T) {
	if got, want := mounts(manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec), `install-cni: /opt/cni/bin at /host/opt/cni/bin None
agent: /run/netns at /run/netns HostToContainer
agent: /run/pod2-agent at /run/pod2-agent None
agent: /sys/fs/bpf at /sys/fs/bpf HostToContainer
agent: /proc/sys/net at /host/proc/sys/net None
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The agent is not privileged: it gets the two capabilities that it keeps, and no others. The clean-up has the same.
func TestCapabilitiesOfManifests(t *testing.T) {
	agent := manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec.Containers[0]
	cleanUp := manifestOf[appsv1.DaemonSet](t, "cleanup/daemonset.yaml", "DaemonSet")[0].Spec.Template.Spec.InitContainers[1]
	for _, c := range []corev1.Container{agent, cleanUp} {
		s := c.SecurityContext
		if got, want := fmt.Sprintf("%v %v %v %v %v %v", ptr.Deref(s.Privileged, false), s.Capabilities, *s.RunAsUser, *s.ReadOnlyRootFilesystem, s.AppArmorProfile.Type, s.SELinuxOptions.Type),
			"false &Capabilities{Add:[NET_ADMIN SYS_ADMIN],Drop:[ALL],} 0 true Unconfined spc_t"; got != want {
			t.Errorf("%s: got %s, want %s", c.Name, got, want)
		}
	}
	if capabilities != 1<<unix.CAP_NET_ADMIN|1<<unix.CAP_SYS_ADMIN {
		t.Errorf("the agent keeps other capabilities than the manifests list: %b", capabilities)
	}
	if !strings.Contains(mounts(manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec), "agent: /proc/sys/net at "+sysctl.Mounted+" ") {
		t.Errorf("%s is not mounted", sysctl.Mounted)
	}
}

// mounts of all containers: the path of the node, that in the container, and the propagation.
func mounts(pod corev1.PodSpec) string {
	var b strings.Builder
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range c.VolumeMounts {
			i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
			fmt.Fprintf(&b, "%s: %s at %s %s\n", c.Name, pod.Volumes[i].HostPath.Path, m.MountPath, ptr.Deref(m.MountPropagation, corev1.MountPropagationNone))
		}
	}
	return b.String()
}

// The init containers install and remove the plugin from the agent's image, in the mounted
// directory. That may belong to another user, or have a label of SELinux.
func TestInstallsPlugin(t *testing.T) {
	agent := manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec
	cleanUp := manifestOf[appsv1.DaemonSet](t, "cleanup/daemonset.yaml", "DaemonSet")[0].Spec.Template.Spec
	for command, c := range map[string]corev1.Container{
		"[/pod2-cni install --to /host/opt/cni/bin]":     agent.InitContainers[0],
		"[/pod2-cni uninstall --from /host/opt/cni/bin]": cleanUp.InitContainers[0],
	} {
		s := c.SecurityContext
		if got, want := fmt.Sprint(c.Image == agent.Containers[0].Image, c.Command, *s.RunAsUser, *s.AllowPrivilegeEscalation, s.Capabilities, s.SELinuxOptions),
			"true "+command+" 0 false &Capabilities{Add:[DAC_OVERRIDE],Drop:[ALL],} &SELinuxOptions{User:,Role:,Type:spc_t,Level:s0,}"; got != want {
			t.Errorf("%s: got %s, want %s", c.Name, got, want)
		}
	}
}

// The data plane of a node is ready when the agent's pod is: when the kernel has the desired
// state.
func TestReadiness(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{}
	a := newTestAgent(m, &s)
	handler := serving.Probes(a.live, a.ready)
	ask := func(path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String()))
	}
	for _, step := range []struct {
		err  error
		want string
	}{
		{nil, "200 ok"},
		{fmt.Errorf("the kernel has no VXLAN"), "503 the kernel has no VXLAN"},
		{nil, "200 ok"},
	} {
		if len(m.done) == 0 {
			if got, want := ask("/readyz"), "503 waiting for the first sync"; got != want {
				t.Errorf("before: got %s, want %s", got, want)
			}
		}
		m.err = step.err
		_ = a.sync(t.Context())
		if got := ask("/readyz"); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
		if got := ask("/healthz"); got != "200 ok" {
			t.Errorf("alive: %s", got)
		}
	}
}
