package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestRelease(t *testing.T) {
	asked := func(w *world, network string) string {
		n, err := w.sample.SamplecrdV1().Networks("default").Get(t.Context(), network, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Annotations[v1.ReleaseAnnotation]
	}
	const nine = `{"address":"10.0.0.9","pod":"web-4","owner":{"kind":"Pod2","name":"web"},"state":"Reserved","since":"2026-01-02T15:03:05Z"}`
	const ten = `{"address":"10.0.0.10","pod":"web-5","owner":{"kind":"Pod2","name":"web"},"state":"Reserved","since":"2026-01-02T15:03:05Z"}`
	for _, tt := range []struct{ name, args, want, asked string }{
		{"all", "release blue --all", "network.samplecrd.k8s.io/blue release of 2 addresses requested\n", "[" + nine + "," + ten + "]"},
		{"one", "release blue 10.0.0.10", "network.samplecrd.k8s.io/blue release of 1 address requested\n", "[" + ten + "]"},
		{"in addition to an earlier request", "release amber fd00::0:9", "network.samplecrd.k8s.io/amber release of 1 address requested\n",
			`[{"address":"fd00::9","pod":"web-4","owner":{"kind":"Pod2","name":"web"},"state":"Reserved","since":"2026-01-02T15:03:05Z"},` +
				`{"address":"fd00::a","pod":"web-5","owner":{"kind":"Pod2","name":"web"},"state":"Reserved","since":"2026-01-02T15:03:05Z"}]`},
		{"addresses that must be kept", "release blue 10.0.0.9 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8",
			"! release addresses of Network default/blue: 10.0.0.5 is not Reserved but Bound; 10.0.0.6 is kept for web-1, a replica of Pod2 web; " +
				"10.0.0.7 is kept for pod web-2, which exists; 10.0.0.8 has no entry in its AddressBlocks\n", ""},
		{"neither addresses nor all", "release blue", "! must specify either ADDRESS... or --all\n", ""},
		{"both", "release blue 10.0.0.9 --all", "! must specify either ADDRESS... or --all\n", ""},
		{"nothing to release", "release green --all", "! Network default/green has no address to release.\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			amber := newNetwork("amber", "fd00::/64")
			amber.Annotations = map[string]string{v1.ReleaseAnnotation: `[` + strings.ReplaceAll(nine, "10.0.0.9", "fd00::4") + `,` +
				strings.NewReplacer("10.0.0.10", "fd00::a").Replace(ten) + `]`} // no AddressBlock has the first any more
			w := newWorld(t, web(func(p *v1.Pod2) { p.Spec.Networks = append(p.Spec.Networks, v1.Pod2Network{Name: "amber"}) }), newNetwork("blue", "10.0.0.0/24"), newNetwork("green", "10.1.0.0/24"), amber,
				block("amber-x", "amber", "fd00::/120", "fd00::9=Reserved:web-4", "fd00::a=Reserved:web-5"),
				block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.5=Bound:web-0", "10.0.0.6=Reserved:web-1", "10.0.0.7=Reserved:web-2", "10.0.0.9=Reserved:web-4", "10.0.0.10=Reserved:web-5"),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-2"}})
			requireText(t, w.run(strings.Fields(tt.args)...), tt.want)
			requireText(t, asked(w, strings.Fields(tt.args)[1]), tt.asked)
		})
	}
}
