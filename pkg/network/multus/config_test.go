package multus

import (
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func rawConfig(in string) (string, error) {
	s := state(func(s *State) { s.Network.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: in} })
	return s.config()
}

func TestRawConfig(t *testing.T) {
	const ours = `"capabilities":{"ips":true,"mac":true},`
	for _, tt := range []struct{ name, in, want string }{
		{"a plugin", `{"type":"macvlan","master":"eth1","mtu":1.50}`,
			`{` + ours + `"cniVersion":"1.0.0","ipam":{"type":"static"},"master":"eth1","mtu":1.50,"name":"default.blue","type":"macvlan"}`},
		{"its own version and name", `{"cniVersion":"0.3.1","name":"x","type":"ipvlan"}`,
			`{` + ours + `"cniVersion":"0.3.1","ipam":{"type":"static"},"name":"x","type":"ipvlan"}`},
		{"its ipam is replaced, except routes and dns", `{"name":"x","cniVersion":"1.0.0","type":"a","ipam":{"type":"dhcp","routes":[{"dst":"10.0.0.0/8"}],"dns":{"domain":"d"}}}`,
			`{` + ours + `"cniVersion":"1.0.0","ipam":{"type":"static","routes":[{"dst":"10.0.0.0/8"}],"dns":{"domain":"d"}},"name":"x","type":"a"}`},
		{"capabilities stay", `{"name":"x","cniVersion":"1.0.0","type":"a","capabilities":{"bandwidth":true,"mac":false}}`,
			`{"capabilities":{"bandwidth":true,"ips":true,"mac":true},"cniVersion":"1.0.0","ipam":{"type":"static"},"name":"x","type":"a"}`},
		{"a list", `{"name":"x","plugins":[{"type":"a"},{"type":"tuning","ipam":{}}]}`,
			`{"cniVersion":"1.0.0","name":"x","plugins":[{` + ours + `"ipam":{"type":"static"},"type":"a"},{"ipam":{},"type":"tuning"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rawConfig(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
			if again, err := rawConfig(got); err != nil || again != got {
				t.Errorf("differs the second time: %s, %v", again, err)
			}
		})
	}
}

func TestRawConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`[]`, `is not a JSON object such as`},
		{`null`, `is null`},
		{`{"a"`, `unexpected end`},
		{`{"type":7}`, `has no type`},
		{`{"name":"x"}`, `has no type`},
		{`{"plugins":{}}`, `has plugins that are not a list`},
		{`{"plugins":[]}`, `has plugins without a first plugin`},
		{`{"plugins":[null]}`, `has plugins without a first plugin`},
		{`{"plugins":[{"master":"a"}]}`, `in the first of plugins has no type`},
		{`{"type":"a","ipam":7}`, `has an unreadable ipam`},
		{`{"type":"a","capabilities":7}`, `has unreadable capabilities`},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := rawConfig(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// A configuration is refused, or it stays the same once it was written.
func FuzzRawConfig(f *testing.F) {
	for _, s := range []string{`{"type":"macvlan"}`, `{"plugins":[{"type":"a"}]}`, `{"type":"a","ipam":null,"capabilities":null}`, `{"Type":"a","type":"b"}`, "{\"\xff\":1,\"type\":\"a\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := rawConfig(in)
		if err != nil {
			return
		}
		if again, err := rawConfig(got); err != nil || again != got {
			t.Errorf("%s differs the second time: %s, %v", got, again, err)
		}
	})
}
