package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

const markup = `<img src=x onerror=hacked=1><script>hacked=1</script>`

// poison puts markup into each string of a value, apart from those that keep is true for.
func poison(v reflect.Value, keep func(string) bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			poison(v.Elem(), keep)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Type != reflect.TypeFor[metav1.Time]() && v.Type().Field(i).Type != reflect.TypeFor[metav1.TypeMeta]() {
				poison(v.Field(i), keep)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), keep)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String && !keep(v.MapIndex(key).String()) {
				v.SetMapIndex(key, reflect.ValueOf(v.MapIndex(key).String()+markup))
			}
		}
	case reflect.String:
		if v.CanSet() && !keep(v.String()) {
			v.SetString(v.String() + markup)
		}
	}
}

// Names and namespaces have markup too, although the API server would refuse it: the page trusts nothing.
func TestMarkupStaysText(t *testing.T) {
	// Without these, the page would not show the objects together.
	keep := func(s string) bool {
		return s == "default" || s == "blue" || s == "10.0.0.0/24" || s == "True" || s == "False" || s == "Bound" || s == "10.0.0.2" || s == "true" || s == "web" || s == "web-0" || s == "uid-0" || s == v1.ConditionAddressesBound
	}
	n, p, waits := network("blue", "10.0.0.0/24", 253, 1, 0, 0), web(1), pod(1, "", false)
	n.Status.Conditions[0].Status = metav1.ConditionFalse
	waits.Status.Conditions = []corev1.PodCondition{{Type: v1.ConditionAddressesBound, Status: corev1.ConditionFalse, Reason: "NetworkExhausted", Message: "message"}}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Type: "Warning", Reason: "Reason", Message: "message", InvolvedObject: corev1.ObjectReference{Kind: "Network", Name: "blue"}}
	crontab := &stablev1.CronTab{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: stablev1.CronTabSpec{CronSpec: "* * * * *"}, Status: stablev1.CronTabStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "r", Message: "m"}}}}
	kube := []runtime.Object{pod(0, "node", true), waits, node("node"), event}
	sample := []runtime.Object{n, p, block("blue-0", "blue", "10.0.0.0/24", bound(0)), crontab}
	for _, object := range append(append([]runtime.Object{}, kube...), sample...) {
		name := object.(metav1.Object).GetName() // of the cluster in memory, which has keys by name
		poison(reflect.ValueOf(object), keep)
		if name == "blue" || name == "web" || name == "web-0" {
			object.(metav1.Object).SetName(name)
		}
	}
	l := newLab(t, 1200, 900, kube, sample)
	l.open("networks")
	l.shows("default/blue")
	for _, part := range []string{"networks", "networks/default/blue/10.0.0.2", "pod2s", "pod2s/default/web", "waiting", "events", "crontabs", "topology/default/blue", "search/" + url.PathEscape(markup), "search/web"} {
		l.do(chromedp.Evaluate(fmt.Sprintf("location.hash = %q", "#/"+part), nil))
		l.do(chromedp.Poll("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))", nil))
		var text string
		var elements int
		var hacked bool
		l.do(chromedp.Text("body", &text), chromedp.Evaluate("document.querySelectorAll('img, body script').length", &elements), chromedp.Evaluate("'hacked' in window", &hacked))
		if elements > 0 || hacked {
			t.Errorf("%s: %d elements of the markup are in the page, hacked: %t", part, elements, hacked)
		}
		if !strings.Contains(text, "<img") {
			t.Errorf("%s: the page shows none of the markup:\n%s", part, text)
		}
	}
}

// A browser on another site gets nothing, and the page itself works with its policy.
func TestOtherSitesGetNothing(t *testing.T) {
	kube, sample := cluster()
	l := newLab(t, 800, 600, kube, sample)
	l.open("networks")
	l.shows("default/blue")
	base := strings.SplitN(l.url, "/open/", 2)[0]
	for name, change := range map[string]func(*http.Request){
		"no cookie":     func(*http.Request) {},
		"forged Host":   func(r *http.Request) { r.Host = "evil.example" },
		"forged Origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/changes", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	other, cancel := chromedp.NewContext(l.ctx) // a second tab, on a page of another origin
	defer cancel()
	// Another port of this machine is another origin, and for cookies the same site.
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><p id=out>waits</p><script>
		fetch("`+base+`/changes", {credentials: 'include'}).then(r => out.textContent = 'got ' + r.status, () => out.textContent = 'refused')</script>`)
	}))
	defer evil.Close()
	var out string
	if err := chromedp.Run(other, chromedp.Navigate(evil.URL), chromedp.Poll("document.querySelector('#out').textContent != 'waits'", nil), chromedp.Text("#out", &out)); err != nil {
		t.Fatal(err)
	}
	if out != "refused" {
		t.Errorf("another site %s", out)
	}
}
