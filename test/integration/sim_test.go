//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pod2/pod2/test/apiserver"
)

// The API server in memory answers each request like the real one. It returns the same
// status code and reason, no different field of an object, and a new resourceVersion
// exactly if the real one does. The test covers every kind of request that the controller
// makes in the scenarios of test/sim.
func TestSimulatedServerIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	server := apiserver.NewServer()
	both := []*peer{newPeer(t, "real", config), newPeer(t, "simulated", server.Config("test"))}
	storage := class(t, ns, true)
	for _, p := range both {
		p.names = strings.NewReplacer("{ns}", ns, "{class}", storage)
	}
	both[0].bind = func(claim string) {
		provision(t, ns)
		eventually(t, "PVC "+claim+" is bound, and nothing else will change it", func(ctx context.Context) (string, error) {
			c, err := kube.CoreV1().PersistentVolumeClaims(ns).Get(ctx, claim, metav1.GetOptions{})
			if err != nil || c.Status.Phase == corev1.ClaimBound && (len(c.Status.Conditions) > 0 || !since(37)) { // 1.37 has the condition Unused
				return "", err
			}
			return fmt.Sprintf("it is %s with conditions %v", c.Status.Phase, c.Status.Conditions), nil
		})
	}
	simulated := kubernetes.NewForConfigOrDie(server.Config("storage"))
	both[1].bind = func(claim string) {
		body := `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`
		if _, err := simulated.CoreV1().PersistentVolumeClaims(ns).Patch(t.Context(), claim, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	covered := map[string]bool{}
	var all []exchange // these come before the real server's garbage collector has work
	for _, kind := range slices.Concat(apiserver.Kinds, apiserver.FaultKinds) {
		query := "limit=500&resourceVersion=0" // like an informer's list after a refused watch
		if strings.HasPrefix(kind, "WATCH") {
			query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		}
		if strings.HasPrefix(kind, "WATCH") || strings.HasPrefix(kind, "LIST") {
			if strings.HasSuffix(kind, "storageclasses") || strings.HasSuffix(kind, "vnis") || strings.HasSuffix(kind, "nodes") { // other tests have objects of these kinds, too
				query += "&fieldSelector=metadata.name%3Dnone"
			}
			all = append(all, exchange{what: kind, query: query})
		}
	}
	all = append(all, exchanges...)
	for _, x := range all {
		if x.compact {
			server.Compact()
		}
		var answers []string
		var objects []any
		for _, p := range both {
			text, object := p.exchange(t, ns, x)
			answers, objects = append(answers, text), append(objects, object)
		}
		if answers[0] != answers[1] {
			t.Errorf("%s:\nthe real server:\n%s\nthe simulated one:\n%s", x.name(), answers[0], answers[1])
		} else if why := lacks("", objects[1], objects[0]); why != "" {
			t.Errorf("%s: the real server does not have this of the simulated one: %s", x.name(), why)
		}
		covered[x.kind()] = true
	}
	for _, kind := range slices.Concat(apiserver.Kinds, apiserver.FaultKinds) {
		if !covered[kind] {
			t.Errorf("no exchange covers %s, which the controller requests", kind)
		}
	}
	t.Logf("%d exchanges of %d kinds", len(all), len(covered))
}

// exchange is a request. Path and body may contain placeholders: {uid:x} and {rv:x} are the
// UID and the resourceVersion in the answer to the exchange named x, and {old:x} is the
// resourceVersion before that.
type exchange struct {
	what        string // "PATCH pods/web-0/status", as names without a namespace
	body        string
	as          string // the name under which the answer is stored
	query       string
	contentType string
	from        string // the answer named x, changed by the merge patch body, is the request's body
	compact     bool
	bound       bool // the PVC must be bound first
}

func (x exchange) name() string { return strings.TrimSpace(x.what + "?" + x.query + " " + x.body) }

func (x exchange) kind() string {
	verb, path, _ := strings.Cut(x.what, " ")
	parts := append(strings.Split(path, "/"), "", "")
	if verb == "GET" && parts[1] == "" {
		verb = "LIST"
	}
	return strings.TrimSuffix(verb+" "+parts[0]+"/"+parts[2], "/")
}
