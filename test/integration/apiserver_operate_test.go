//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/pod2/pod2/test/integration/audit"
)

// A Resting address says when it is free again. That time is not an event: the next event is
// the controller's next write.
func TestRestingAddress(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	ns := newNamespace(t)
	controller := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.1.0.0/24, reuseDelaySeconds: 15}`)+gatedPod("web", "blue"))
	waitReady(t, ns, "pod/web")
	run(t, ns, "delete", "pod", "web")
	addresses := dyn.Resource(addressesResource).Namespace(ns)
	var resting *metav1.Time
	eventually(t, "the address is Resting", func(ctx context.Context) (string, error) {
		list, err := addresses.List(ctx, metav1.ListOptions{FieldSelector: "status.state=Resting"})
		if err != nil || len(list.Items) != 1 {
			return fmt.Sprintf("%d are Resting", len(list.Items)), err
		}
		since, err := time.Parse(time.RFC3339, nested(&list.Items[0], "status", "since"))
		if err != nil {
			return "", err
		}
		until, err := time.Parse(time.RFC3339, nested(&list.Items[0], "status", "until"))
		if err != nil {
			return "", err
		}
		if until.Sub(since) != 15*time.Second || nested(&list.Items[0], "spec", "pod") != "web" {
			t.Fatalf("the Address is %v, want until 15s after since", list.Items[0].Object)
		}
		resting = &metav1.Time{Time: until}
		return "", nil
	})
	if err := controller.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	list, err := addresses.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d Addresses, want the Resting one: the controller stopped too late", len(list.Items))
	}
	w, err := addresses.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case e := <-w.ResultChan():
		t.Errorf("the end of a rest is an event: %s %v", e.Type, e.Object)
	case <-time.After(time.Until(resting.Add(2 * time.Second))):
	}
	startController(t, ns)
	create(t, ns, gatedPod("next", "blue="+nested(&list.Items[0], "spec", "address")))
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				t.Fatalf("the watch ends: %v", e.Object)
			}
			if nested(e.Object, "spec", "pod") == "next" && nested(e.Object, "status", "state") == "Bound" {
				return
			}
		case <-time.After(patience):
			t.Fatal("the next pod gets the address, without an event")
		}
	}
}

// The server has an audit log and metrics, as kube-apiserver.
func TestAPIServerAuditAndMetrics(t *testing.T) {
	aggregation(t)
	log := filepath.Join(t.TempDir(), "audit.log")
	port, _ := startAPIServer(t, "--audit-log-path="+log, "--audit-policy-file="+filepath.Join(root, "hack/localcluster/audit-policy.yaml"))
	aggregate(t, port)
	ns := newNamespace(t)
	run(t, ns, "get", "addresses")
	eventually(t, "the audit log has the list", func(context.Context) (string, error) {
		text, err := os.ReadFile(log)
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte(`"verb":"list"`)) && bytes.Contains(line, []byte(`"resource":"addresses","namespace":"`+ns+`"`)) && bytes.Contains(line, []byte(`"code":200`)) {
				return "", nil
			}
		}
		return string(text), err
	})
	to := rest.CopyConfig(config)
	to.Insecure, to.CAData, to.CAFile = true, nil, ""
	for _, c := range []struct {
		config *rest.Config
		path   string
		code   int
		want   string
	}{
		{to, "/metrics", http.StatusOK, `apiserver_request_total{`},
		{to, "/metrics", http.StatusOK, `resource="addresses"`},
		{rest.AnonymousClientConfig(to), "/metrics", http.StatusForbidden, ""},
		{rest.AnonymousClientConfig(to), "/livez", http.StatusOK, "ok"},
		{rest.AnonymousClientConfig(to), "/readyz", http.StatusOK, "ok"},
	} {
		client, err := rest.HTTPClientFor(c.config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get("https://127.0.0.1:" + port + c.path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %s %v, want %d with %q: %.300s", c.path, answer.Status, err, c.code, c.want, text)
		}
	}
}

// Administrators apply the manifest again, such as for another image. The certificates stay.
func TestAPIServerIsAppliedAgain(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	data := func() string {
		return run(t, "pod2-system", "get", "secret", "pod2-apiserver-tls", "-o", "jsonpath={.data}")
	}
	before := data()
	if !strings.Contains(before, "tls.crt") {
		t.Fatalf("the Secret has %s", before)
	}
	text, err := os.ReadFile(filepath.Join(root, "artifacts/apiserver/apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, part := range strings.Split(string(text), "\n---\n") {
		if !strings.Contains(part, "\nkind: Service\n") { // the test has changed it
			parts = append(parts, part)
		}
	}
	for _, flags := range [][]string{nil, {"--server-side", "--force-conflicts"}} {
		if out, err := kubectlBinary(t.Context(), strings.Join(parts, "\n---\n"), append([]string{"apply", "-f", "-"}, flags...)...); err != nil {
			t.Fatalf("apply: %v\n%s", err, out)
		}
		if data() != before {
			t.Errorf("apply with flags %q changes the certificates", flags)
		}
	}
}

// Priority and fairness reports a FlowSchema without a priority level. Each API server does
// so, whichever is first.
func TestAPIServerReportsFlowSchemas(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	i := 0
	eventually(t, "pod2-apiserver writes the status of a FlowSchema", func(context.Context) (string, error) {
		name := fmt.Sprint("dangling-", i)
		i++
		t.Cleanup(func() { _, _ = kubectl("delete", "flowschema", name) })
		create(t, "", `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: `+name+`}, spec: {matchingPrecedence: 9999, priorityLevelConfiguration: {name: none}}}`)
		time.Sleep(time.Second)
		log, err := os.Open(auditLog)
		if err != nil {
			return "", err
		}
		defer log.Close()
		calls, err := audit.Calls(log, "pod2-apiserver/")
		if err != nil || calls[audit.Call{Verb: "patch", Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas/status"}] {
			return "", err
		}
		return "no patch after " + name, nil
	})
}
