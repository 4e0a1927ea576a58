package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// A bind is on the page within a second of its write. The bound is for the fastest of five, because other programs run on
// the machine.
func TestBindIsShownAtOnce(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 1200, 900, kube, sample)
	l.open("networks/default/large/10.1.0.7")
	l.shows("Free, or excluded")
	blocks := l.sample.SamplecrdV1().AddressBlocks("default")
	b := block("large-0", "large", "10.1.0.0/24")
	if _, err := blocks.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for i := range 5 {
		pod := fmt.Sprintf("late-%d", i)
		b.Spec.Entries = []v1.AddressEntry{{Address: "10.1.0.7", Pod: pod, State: v1.AddressBound, Since: metav1.Now()}}
		begin := time.Now()
		if _, err := blocks.Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.shows(pod)
		fastest = min(fastest, time.Since(begin))
	}
	if fastest > time.Second {
		t.Errorf("took %s", fastest)
	}
}

func TestKeyboard(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 1200, 900, kube, sample)
	l.open("networks/default/blue")
	l.shows("Point at a cell")
	l.do(chromedp.Focus("#map"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowDown))
	l.shows("10.0.0.18")
	l.shows("web-16")
	l.do(chromedp.KeyEvent(kb.Enter))
	var hash string
	l.do(chromedp.Evaluate("location.hash", &hash))
	if hash != "#/networks/default/blue/10.0.0.18" {
		t.Errorf("the URL has %s", hash)
	}
	l.do(chromedp.Reload())
	l.shows("web-16")
	l.do(chromedp.NavigateBack())
	l.shows("Point at a cell")
}

func TestSearch(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 1200, 900, kube, sample)
	l.open("networks")
	l.shows("default/blue")
	for _, row := range []struct{ words, want string }{
		{"10.0.0.9", "web-7"}, {"web-7", "10.0.0.9"}, {"0a:58:0a:00:00:09", "web-7"}, {"node-7", "10.0.0.9"}, {"statefulset/db", "10.0.0.100"}, {"nobody", "No address, pod"},
	} {
		l.do(chromedp.Evaluate("document.querySelector('input[name=q]').value = ''", nil), chromedp.SendKeys("input[name=q]", row.words+kb.Enter))
		l.shows("Search: " + row.words)
		l.shows(row.want)
	}
	l.do(chromedp.Click("header button[type=button]"))
	l.shows("kubectl pod2 dashboard --context kind -A --open search/nobody")
	l.visit("search/StatefulSet/db") // as --open search/StatefulSet/db does
	l.shows("Search: StatefulSet/db")
	l.shows("10.0.0.100")
	l.visit("search/50%") // cannot be decoded
	l.shows("Search: 50%")
	l.shows("No address, pod")
}

// A plan takes the command several requests to the API server. So the page asks once a second at most, although the Pod2
// changes more often, and asks again after an error.
func TestPlanIsAskedSeldom(t *testing.T) {
	kube, sample := cluster()
	var asked atomic.Int32
	l := newLab(t, 1200, 900, kube, sample, func(l *lab) {
		l.plan = func() (string, error) {
			if asked.Add(1) == 1 {
				return "", errors.New("the API server is away")
			}
			p, err := l.sample.SamplecrdV1().Pod2s("default").Get(context.Background(), "web", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("wait for %d replicas\n", 60-p.Status.ReadyReplicas), nil
		}
	})
	l.open("pod2s/default/web")
	l.shows("the API server is away")
	l.shows("wait for 1 replicas") // although the Pod2 has not changed
	before, begin := asked.Load(), time.Now()
	p := web(60)
	for p.Status.ReadyReplicas = 0; p.Status.ReadyReplicas < 10; p.Status.ReadyReplicas++ {
		if _, err := l.sample.SamplecrdV1().Pod2s("default").Update(t.Context(), p.DeepCopy(), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.shows(fmt.Sprintf("60 exist, %d ready", p.Status.ReadyReplicas))
	}
	l.shows("wait for 51 replicas")
	if n, most := asked.Load()-before, int32(time.Since(begin).Seconds())+3; n > most {
		t.Errorf("10 changes in %s made %d plans, want %d or less", time.Since(begin).Round(time.Millisecond), n, most)
	}
}

func TestMissingRight(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 1200, 900, kube, sample, func(l *lab) {
		l.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
		})
	})
	l.open("topology/default/blue")
	l.shows("You lack a right, so nodes are not shown: list and watch nodes.")
}

// The page says since when its data is old, and is current again without a reload.
func TestServerAway(t *testing.T) {
	kube, sample := cluster()
	away := make(chan struct{})
	l := newLab(t, 1200, 900, kube, sample, func(l *lab) {
		l.sample.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
			select {
			case <-away:
				return false, nil, nil
			default:
				return true, nil, fmt.Errorf("connection refused")
			}
		})
	})
	l.open("networks")
	l.shows("The API server does not answer. The networks are from")
	close(away)
	l.shows("default/blue")
	var text string
	l.do(chromedp.Text("#alerts", &text))
	if text != "" {
		t.Errorf("the page still says %q", text)
	}
}

func TestDarkPhone(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 390, 800, kube, sample)
	l.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	l.open("networks/default/blue")
	l.shows("60 bound")
	var back string
	var wide bool
	l.do(chromedp.Evaluate("getComputedStyle(document.body).backgroundColor", &back), chromedp.Evaluate("document.documentElement.scrollWidth > innerWidth", &wide))
	if back != "rgb(15, 20, 25)" || wide {
		t.Errorf("background %s, wider than the screen: %t", back, wide)
	}
}

// TestAccessibility runs axe-core on each view. hack/browser.sh prints where it is.
func TestAccessibility(t *testing.T) {
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Fatalf("the environment variable AXE must name axe-core, as make dashboard-test sets it: %v", err)
	}
	kube, sample := cluster()
	l := newLab(t, 1200, 900, append(kube, pod(99, "", false)), sample)
	l.open("networks")
	l.do(chromedp.Evaluate(string(axe)+";true", nil))
	for _, scheme := range []string{"light", "dark"} {
		l.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		for part, text := range map[string]string{"networks": "default/blue", "networks/default/blue/10.0.0.9": "web-7", "pod2s": "default/web", "pod2s/default/web": "create pod", "topology/default/blue": "60 pods",
			"waiting": "Pods that wait", "events": "Events", "crontabs": "CronTabs", "search/web": "10.0.0.9"} {
			l.visit(part)
			l.shows(text)
			var found string
			l.do(chromedp.Evaluate(`axe.run(document).then(r => JSON.stringify(r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ; '))))`, &found, awaitPromise))
			var list []string
			if err := json.Unmarshal([]byte(found), &list); err != nil {
				t.Fatal(err)
			}
			if len(list) > 0 {
				t.Errorf("%s, %s:\n%s", part, scheme, strings.Join(list, "\n"))
			}
		}
	}
}

func awaitPromise(p *cdpruntime.EvaluateParams) *cdpruntime.EvaluateParams {
	return p.WithAwaitPromise(true)
}
