//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pod2/pod2/test/apiserver"
)

// The API server in memory answers each request as the real one does: the same
// status code and reason, an object of which it has no field otherwise, and a new
// resourceVersion when there is one. Every kind of request that the controller makes
// in the scenarios of test/sim is among them.
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
		eventually(t, "claim "+claim+" is bound", func(ctx context.Context) (string, error) {
			c, err := kube.CoreV1().PersistentVolumeClaims(ns).Get(ctx, claim, metav1.GetOptions{})
			if err != nil || c.Status.Phase == corev1.ClaimBound {
				return "", err
			}
			return "it is " + string(c.Status.Phase), nil
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
	var all []exchange // before the garbage collector of the one has something to do
	for _, kind := range slices.Concat(apiserver.Kinds, apiserver.FaultKinds) {
		query := "limit=500&resourceVersion=0" // as informers list whose watch is refused
		if strings.HasPrefix(kind, "WATCH") {
			query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		}
		if strings.HasPrefix(kind, "WATCH") || strings.HasPrefix(kind, "LIST") {
			if strings.HasSuffix(kind, "storageclasses") || strings.HasSuffix(kind, "vnis") || strings.HasSuffix(kind, "nodes") { // which other tests have too
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
			t.Errorf("%s: the simulated server has, and the real one has not: %s", x.name(), why)
		}
		covered[x.kind()] = true
	}
	for _, kind := range slices.Concat(apiserver.Kinds, apiserver.FaultKinds) {
		if !covered[kind] {
			t.Errorf("no exchange is a %s, which the controller asks for", kind)
		}
	}
	t.Logf("%d exchanges of %d kinds", len(all), len(covered))
}

// exchange is a request. In path and body, {uid:x} and {rv:x} are the UID and the
// resourceVersion that the server gave to what it answered to the exchange before
// that was named x, and {old:x} is the resourceVersion before the last.
type exchange struct {
	what        string // "PATCH pods/web-0/status", as names without a namespace
	body        string
	as          string // the name under which the answer is remembered
	query       string
	contentType string
	from        string // the body is what was answered to x, changed by body as a merge patch
	compact     bool
	bound       bool // the claim that is asked for has been bound before
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
