//go:build linux

package node

import "testing"

func TestOldKernelsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		release string
		missing []string
		want    string
	}{
		{"6.1.0-56-cloud-amd64", nil, ""},
		{"6.18.44", nil, ""},
		{"7.0.1", nil, ""},
		{"6.0.19", nil, "the data plane needs Linux 6.1 or newer: this node has 6.0.19, which has the features, and nobody has tested it"},
		{"5.15.0-generic", nil, "the data plane needs Linux 6.1 or newer: this node has 5.15.0-generic, which has the features, and nobody has tested it"},
		{"5.4.0", []string{"bpf_redirect_neigh", "bpf_redirect_peer"}, "the data plane needs Linux 6.1 or newer with all features of eBPF: this node has 5.4.0, which lacks bpf_redirect_neigh, bpf_redirect_peer"},
		{"6.6.1", []string{"bpf_redirect_peer"}, "the data plane needs Linux 6.1 or newer with all features of eBPF: this node has 6.6.1, which lacks bpf_redirect_peer"},
		{"six.one", nil, `the kernel's release "six.one" does not begin with two numbers: expected integer`},
	} {
		got := ""
		if err := check(tt.release, tt.missing); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.release, got, tt.want)
		}
	}
}
