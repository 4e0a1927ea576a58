package plans

import (
	"fmt"
	"strings"
	"testing"
)

// The schema of a Pod2Plan has no bounds, so a plan without this check could use all memory of the server.
func TestBoundsOfAPod2(t *testing.T) {
	for spec, want := range map[string]string{
		"replicas: 100000": "",
		"replicas: 100001": "must be from 0 to 100000",
		"replicas: -1":     "must be from 0 to 100000",
		"reserveOrdinals: [" + strings.Repeat("1, ", 1025) + "]": "must have at most 1024 items",
	} {
		_, invalid := read([]byte(fmt.Sprintf("{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: web}, spec: {%s}}", spec)), "default")
		got := ""
		if invalid != nil {
			got = invalid.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%.20s: %s", spec, got)
		}
	}
}
