// Package browser tests the page of `kubectl pod2 dashboard` in Chromium.
package browser

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	pngs "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/dashboard"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	"github.com/pod2/pod2/pkg/reconcile"
)

// lab is a dashboard, and a browser that shows it. newLab makes one on a cluster in memory, and
// newLive one on a real control plane.
type lab struct {
	*testing.T
	ctx    context.Context // of the browser
	kube   *kubefake.Clientset
	sample *fake.Clientset
	url    string
	// plan is the next step of the controller; nil for one step.
	plan func() (string, error)
}

// patience is how long a test waits for the page. It is long, because other programs run on the machine.
const patience = 90 * time.Second

// chromium on this machine. The target dashboard-test of the Makefile installs it.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium found: install it (on Debian: apt-get install chromium)")
}

func newLab(t *testing.T, width, height int64, kube, sample []runtime.Object, change ...func(*lab)) *lab {
	t.Helper()
	l := &lab{T: t, kube: kubefake.NewClientset(kube...), sample: fake.NewSimpleClientset(sample...)}
	for _, c := range change {
		c(l)
	}
	urls, done := make(chan string, 1), make(chan error, 1)
	serving, stop := context.WithCancel(t.Context())
	go func() {
		done <- dashboard.Run(serving, dashboard.Options{
			Clients: reconcile.Clients{Kube: l.kube, Sample: l.sample}, Context: "kind", Address: "127.0.0.1:0", Now: time.Now,
			Plan: func(context.Context, string, string) (string, error) {
				if l.plan != nil {
					return l.plan()
				}
				return "  create pod web-2: scaled up\n", nil
			},
			History: func(context.Context, string, string) ([]dashboard.Revision, error) {
				return []dashboard.Revision{{Number: 1, Name: "web-1", Role: "current", Created: 1, Changes: "+image: nginx:1.28\n"}, {Number: 2, Name: "web-2", Role: "update", Changes: "-image: nginx:1.28\n+image: nginx:1.29\n"}}, nil
			},
		}, func(url string) { urls <- url })
	}()
	select {
	case l.url = <-urls:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	l.browse(width, height, 5*time.Minute)
	return l
}

// chromiumOfAll starts the browser that the tests share. A start takes seconds.
var chromiumOfAll = sync.OnceValues(func() (context.Context, error) {
	path, err := chromium()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	atEnd = append(atEnd, func() error {
		end()
		return nil
	})
	ctx, _ := chromedp.NewContext(allocator)
	return ctx, chromedp.Run(ctx)
})

// browse opens a tab, which is closed at the end of the test.
func (l *lab) browse(width, height int64, atMost time.Duration) {
	l.Helper()
	browser, err := chromiumOfAll()
	if err != nil {
		l.Fatal(err)
	}
	ctx, end := chromedp.NewContext(browser)
	timed, cancel := context.WithTimeout(ctx, atMost)
	l.ctx = timed
	l.Cleanup(func() {
		cancel()
		end()
	})
	l.do(chromedp.EmulateViewport(width, height))
}

func (l *lab) do(actions ...chromedp.Action) {
	l.Helper()
	if err := chromedp.Run(l.ctx, actions...); err != nil {
		l.Fatal(err)
	}
}

// open a part of the page.
func (l *lab) open(part string) {
	l.Helper()
	l.do(chromedp.Navigate(l.url + "#/" + part))
}

// shows waits until the page has a text.
func (l *lab) shows(text string) {
	l.Helper()
	if err := chromedp.Run(l.ctx, chromedp.Poll(fmt.Sprintf("document.body.innerText.includes(%q)", text), nil, chromedp.WithPollingTimeout(patience))); err != nil {
		var body string
		_ = chromedp.Run(l.ctx, chromedp.Evaluate("document.body.innerText", &body))
		l.Fatalf("the page does not show %q: %v\n%s", text, err, body)
	}
}

// picture of the page, in the directory of the environment variable PICTURES, if that is set. The picture is SVG around a
// PNG, because the repository has only text.
func (l *lab) picture(name string) {
	l.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	l.do(chromedp.FullScreenshot(&png, 100))
	size, err := pngs.DecodeConfig(bytes.NewReader(png))
	if err != nil {
		l.Fatal(err)
	}
	text := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %[1]d %[2]d\" width=\"%[1]d\" height=\"%[2]d\">\n<image width=\"%[1]d\" height=\"%[2]d\" href=\"data:image/png;base64,%[3]s\"/>\n</svg>\n",
		size.Width, size.Height, base64.StdEncoding.EncodeToString(png))
	if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
}

var ago = metav1.NewTime(time.Now().Add(-90 * time.Minute).Truncate(time.Second))

func network(name, cidr string, capacity, bound, reserved, resting int64) *v1.Network {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: v1.NetworkSpec{CIDR: cidr}}
	n.Status = v1.NetworkStatus{Capacity: capacity, Bound: bound, Reserved: reserved, Resting: resting, Available: capacity - bound - reserved - resting, Gateway: "10.0.0.1", VNI: 1,
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Serving", Message: "hands out addresses", LastTransitionTime: ago}}}
	return n
}

func pod(i int, node string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i)), CreationTimestamp: ago,
		Labels:      map[string]string{v1.ManagedLabel: "true", v1.Pod2Label: "web", v1.PodIndexLabel: fmt.Sprint(i), v1.PodTemplateHashLabel: "2"},
		Annotations: map[string]string{v1.NetworksAnnotation: "blue"}}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Phase = corev1.PodRunning
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago}}
	}
	return p
}

func block(name, network, cidr string, entries ...v1.AddressEntry) *v1.AddressBlock {
	return &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.AddressBlockSpec{Network: network, NetworkUID: types.UID(network), CIDR: cidr, Entries: entries}}
}

func bound(i int) v1.AddressEntry {
	return v1.AddressEntry{Address: fmt.Sprintf("10.0.%d.%d", (i+2)/256, (i+2)%256), Pod: fmt.Sprint("web-", i), PodUID: types.UID(fmt.Sprint("uid-", i)), State: v1.AddressBound, Since: ago, Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"}}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func web(replicas int32) *v1.Pod2 {
	return &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.Pod2Spec{Replicas: ptr.To(replicas), Networks: []v1.Pod2Network{{Name: "blue"}}},
		Status: v1.Pod2Status{Replicas: replicas, ReadyReplicas: replicas - 1, AvailableReplicas: replicas - 1, UpdatedReplicas: replicas, CurrentRevision: "web-1", UpdateRevision: "web-2"}}
}

// visit another part of the page without loading it.
func (l *lab) visit(part string) {
	l.Helper()
	l.do(chromedp.Evaluate(fmt.Sprintf("location.hash = %q; new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))", "#/"+part), nil, awaitPromise))
}

// hides waits until the page no longer has a text.
func (l *lab) hides(text string) {
	l.Helper()
	if err := chromedp.Run(l.ctx, chromedp.Poll(fmt.Sprintf("!document.body.innerText.includes(%q)", text), nil, chromedp.WithPollingTimeout(patience))); err != nil {
		l.Fatalf("the page still shows %q: %v", text, err)
	}
}

// count the elements that a selector matches.
func (l *lab) count(selector string) (n int) {
	l.Helper()
	l.do(chromedp.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n))
	return n
}
