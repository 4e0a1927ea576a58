//go:build linux && kernel

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pod2/pod2/pkg/agent/bpf"
)

// An agent with the settings of the DaemonSet, on a node with a pod on a Network of 150,000 pods, in a cluster of 5,000
// nodes. It needs less than 100 MiB while it fills the tables.
func TestMemoryOfALargeNetwork(t *testing.T) {
	const pods, limit = 150_000, 100 << 10 // KiB
	if arguments := os.Getenv("POD2_AGENT_ARGUMENTS"); arguments != "" {
		os.Exit(command(strings.Fields(arguments), os.Stdout, os.Stderr))
	}
	runtime.LockOSThread() // the agent inherits this thread's namespace
	ns, err := netns.New()
	must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	must(t, netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}))
	dir := filepath.Join(t.TempDir(), "bpf")
	must(t, os.Mkdir(dir, 0o700))
	must(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })

	agent := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	agent.Env = append(os.Environ(), "POD2_AGENT_ARGUMENTS=--node-name=n1 --master="+largeCluster(t, pods)+" --bpf-dir="+dir+" --cni-socket="+filepath.Join(t.TempDir(), "cni.sock"))
	for _, e := range manifest[appsv1.DaemonSet](t, "DaemonSet")[0].Spec.Template.Spec.Containers[0].Env {
		if e.Value != "" {
			agent.Env = append(agent.Env, e.Name+"="+e.Value)
		}
	}
	var log bytes.Buffer
	agent.Stderr = &log
	must(t, agent.Start())
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	status := fmt.Sprintf("/proc/%d/status", agent.Process.Pid)
	peak, places := 0, 0
	for end := time.Now().Add(5 * time.Minute); places < pods && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(status)
		must(t, err)
		_, rest, _ := strings.Cut(string(text), "RssAnon:")
		if fields := strings.Fields(rest); len(fields) > 0 {
			kib, err := strconv.Atoi(fields[0])
			must(t, err)
			peak = max(peak, kib)
		}
		if m, err := bpf.Open(dir); err == nil {
			entries, _, err := m.Read()
			if m.Close(); err == nil {
				places = len(entries.Places)
			}
		}
	}
	t.Logf("%d pods: %.1f MiB", places, float64(peak)/1024)
	if places < pods || peak > limit {
		t.Errorf("%d entries and %d KiB, want %d and at most %d; the log is\n%s", places, peak, pods, limit, &log)
	}
}

// kindList has the objects of one kind.
type kindList struct {
	apiVersion, kind string
	objects          []kruntime.Object
}

// largeCluster serves the objects that an agent of node n1 watches, and returns the URL.
func largeCluster(t *testing.T, pods int) string {
	t.Helper()
	const hosts, perSlice = 5_000, 50
	host := func(n int) string { return netip.AddrFrom4([4]byte{172, 16, byte(n >> 8), byte(n)}).String() }
	var nodes, network []kruntime.Object
	for i := range hosts / perSlice {
		s := nodesSlice()
		s.Name = fmt.Sprint("nodes.", i)
		for j := range perSlice {
			s.Spec.Locations[host(i*perSlice+j)] = host(i*perSlice + j)
		}
		nodes = append(nodes, s)
	}
	for i := range pods / perSlice {
		s := sliceOf("blue", i)
		for j := range perSlice {
			n := i*perSlice + j + 2 // after the gateway
			s.Spec.Locations[netip.AddrFrom4([4]byte{192, 160 + byte(n>>16), byte(n >> 8), byte(n)}).String()] = host(n % hosts)
		}
		if s.Spec.Overlay != nil {
			s.Spec.Overlay.CIDR, s.Spec.Overlay.Gateway = "192.160.0.0/12", "192.160.0.1"
		}
		network = append(network, s)
	}
	objects := map[string]kindList{
		"/api/v1/pods":  {"v1", "Pod", []kruntime.Object{podOn("a", "blue")}},
		"/api/v1/nodes": {"v1", "Node", []kruntime.Object{nodeN1()}},
		"/apis/samplecrd.k8s.io/v1/namespaces/kube-system/addressslices": {"samplecrd.k8s.io/v1", "AddressSlice", nodes},
		"/apis/samplecrd.k8s.io/v1/namespaces/default/addressslices":     {"samplecrd.k8s.io/v1", "AddressSlice", network},
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices":    {"discovery.k8s.io/v1", "EndpointSlice", nil},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, known := objects[r.URL.Path]
		if !known || r.URL.Query().Get("watch") == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		events := json.NewEncoder(w)
		for _, object := range list.objects {
			object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(list.apiVersion, list.kind))
			_ = events.Encode(map[string]any{"type": "ADDED", "object": object})
		}
		_, _ = fmt.Fprintf(w, `{"type": "BOOKMARK", "object": {"apiVersion": %q, "kind": %q, "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}`+"\n",
			list.apiVersion, list.kind)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server.Listener = listener
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}
