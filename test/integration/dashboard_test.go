//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// dashboard is a running `kubectl pod2 dashboard`, and a client with its cookie.
type dashboard struct {
	base   string
	client *http.Client
	mu     sync.Mutex
	known  map[string]string // record by key
}

// openDashboard starts the command for a user, and follows its changes until the test ends.
func openDashboard(t *testing.T, namespace, user string) *dashboard {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	two := kubeconfigWith(t, func(config *api.Config) { config.Contexts["other"] = config.Contexts[config.CurrentContext] })
	cmd := exec.Command(filepath.Join(root, "bin/kubectl-pod2"), "dashboard", "--no-open", "--kubeconfig", two, "--context=other", "-n", namespace, "--as="+user)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start the dashboard (run `make build` first): %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the dashboard prints no URL: %v", err)
	}
	address, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "The dashboard is at ")))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{base: "http://" + address.Host, client: &http.Client{Jar: jar}, known: map[string]string{}}
	if page := d.get(t, strings.TrimPrefix(address.String(), d.base)); !strings.Contains(page, "<title>Pod2</title>") {
		t.Fatalf("the URL shows %s", page)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.follow(ctx) // it ends with the dashboard
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			t.Errorf("Ctrl-C does not end the dashboard: %v", err)
		}
	})
	return d
}

func (d *dashboard) request(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+path, nil)
	if err != nil {
		return nil, err
	}
	return d.client.Do(r)
}

func (d *dashboard) get(t *testing.T, path string) string {
	t.Helper()
	response, err := d.request(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v: %s", path, response.Status, err, text)
	}
	return string(text)
}

// follow the server-sent events.
func (d *dashboard) follow(ctx context.Context) error {
	response, err := d.request(ctx, "/changes")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		values := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			return err
		}
		d.mu.Lock()
		for key, value := range values {
			d.known[key] = string(value)
		}
		d.mu.Unlock()
	}
}

// shows waits until the record of a key contains a text.
func (d *dashboard) shows(t *testing.T, key, text string) {
	t.Helper()
	eventually(t, "the dashboard shows "+key, func(context.Context) (string, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !strings.Contains(d.known[key], text) {
			return key + " is " + d.known[key], nil
		}
		return "", nil
	})
}

// verbsOf a user, from the API server's audit log.
func verbsOf(t *testing.T, user string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"username":"`+user+`"`)) || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		var event struct{ Verb string }
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		list = append(list, event.Verb)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// The dashboard shows changes to a user with the role `view`, names the rights that the user lacks, and only reads.
func TestDashboard(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, "", "apply", "-f", filepath.Join(root, "artifacts/20-user-roles.yaml"))
	startController(t, ns)
	viewer := "viewer-" + ns
	create(t, ns, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+viewer+`}]
`)
	d := openDashboard(t, ns, viewer)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30}`)+webManifest)
	d.shows(t, "addresses/"+ns+"/blue/10.0.0.2", `"state":"Bound","pod":"web-0"`)
	d.shows(t, "pods/"+ns+"/web-0", `"ready":true`)
	d.shows(t, "pods/"+ns+"/web-1", `"reason":"NetworkExhausted"`)
	d.shows(t, "sources/nodes", `"missing":"list and watch nodes"`)
	if settings, want := strings.TrimSpace(d.get(t, "/settings")), `{"context":"other","namespace":"`+ns+`"}`; settings != want {
		t.Errorf("the page is of %s, want %s", settings, want)
	}
	query := "?namespace=" + ns + "&name=web"
	if history := d.get(t, "/history"+query); !strings.Contains(history, `"number":1`) {
		t.Errorf("history: %s", history)
	}
	if plan := d.get(t, "/plan"+query); plan == "" {
		t.Error("the dashboard has no plan")
	}
	if got := strings.Join(verbsOf(t, viewer), " "); got != "get list watch" {
		t.Errorf("the user sent %q", got)
	}
}

const webManifest = `---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 2
  networks: [{name: blue}]
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: nginx}]}}
`
