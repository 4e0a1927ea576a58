//go:build linux

package cni

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/v1.txt")

func encode(t *testing.T, v any) []byte {
	t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}

// messages are one of each kind.
func messages() (requests []request, responses []response) {
	return []request{
			{Version: 1, Command: add, Attachment: web},
			{Version: 1, Command: check, Attachment: web},
			{Version: 1, Command: del, Attachment: Attachment{ID: web.ID, Network: web.Network}},
			{Version: 1, Command: status},
			{Version: 1, Command: gc, Attachment: Attachment{Network: web.Network}, Valid: []ID{web.ID, {"77aa", "net2"}}},
		}, []response{
			{Version: 1},
			{Version: 1, Result: &sample},
			{Version: 1, Error: Errorf(CodeTryAgainLater, "pod2-agent does not know pod default/web-0 yet")},
		}
}

// The file has the messages of version 1 as released. This version writes the same and reads them,
// also with fields that a later version has added. If this test fails because a message changed,
// plugins and agents of neighbouring releases do not understand each other.
func TestVersion1(t *testing.T) {
	requests, responses := messages()
	var text strings.Builder
	for _, r := range requests {
		text.Write(encode(t, r))
	}
	for _, r := range responses {
		text.Write(encode(t, r))
	}
	const file = "testdata/v1.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(golden) {
		t.Errorf("got\n%s\nwant\n%s", text.String(), golden)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
		for _, line := range []string{line, strings.Replace(line, `{"version":1`, `{"version":1,"added":{"later":[true]}`, 1)} {
			var got, want any
			var err error
			if i < len(requests) {
				var refused *Error
				if got, refused = decodeRequest([]byte(line)); refused != nil {
					err = refused
				}
				want = requests[i]
			} else {
				var r response
				err = json.Unmarshal([]byte(line), &r)
				got, want = r, responses[i-len(requests)]
			}
			if string(encode(t, got)) != string(encode(t, want)) || err != nil {
				t.Errorf("%s was read as %s (%v)", line, encode(t, got), err)
			}
		}
	}
}

func TestRequests(t *testing.T) {
	j := &journal{}
	path, refused := start(t, &Server{Handler: j})
	c := Client{path}
	netns, err := os.Open(netnsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	calls := func() string {
		var out []string
		for _, call := range []func() (any, error){
			func() (any, error) { return c.Add(t.Context(), web, netns) },
			func() (any, error) { return c.Check(t.Context(), web, netns) },
			func() (any, error) { return nil, c.Del(t.Context(), web) },
			func() (any, error) { return nil, c.Status(t.Context()) },
			func() (any, error) { return nil, c.GC(t.Context(), "default.blue", []ID{web.ID}) },
		} {
			result, err := call()
			out = append(out, fmt.Sprintf("%v %v", result, err))
		}
		return strings.Join(out, "\n")
	}
	before := openDescriptors(t)
	result := "{" + web.HostInterface() + " 0a:58:c0:a8:00:02 1450 192.168.0.2/16 192.168.0.1 [{192.168.0.0/15 invalid IP}]} <nil>"
	if got, want := calls(), result+"\n"+result+"\n<nil> <nil>\n<nil> <nil>\n<nil> <nil>"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := j.String(), `Add net1 5b0c of default/web-0 on default.blue [192.168.0.2/16] 0a:58:c0:a8:00:02 with this network namespace
Check net1 5b0c of default/web-0 on default.blue [192.168.0.2/16] 0a:58:c0:a8:00:02 with this network namespace
Del net1 5b0c of default/web-0 on default.blue [192.168.0.2/16] 0a:58:c0:a8:00:02
Status
GC default.blue [{5b0c net1}]`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	keepsNoDescriptor(t, before)
	none := "{  0 invalid Prefix invalid IP []} later"
	j.mu.Lock()
	j.err = fmt.Errorf("wrapped: %w", Errorf(CodeTryAgainLater, "later"))
	j.mu.Unlock()
	if got, want := calls(), none+"\n"+none+"\n<nil> later\n<nil> later\n<nil> later"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := send(t, path, string(encode(t, request{Version: 1, Command: add, Attachment: web})), netnsPath), `{"version":1,"error":{"code":11,"message":"later"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if reasons := refused(); reasons != "" {
		t.Errorf("refused %s", reasons)
	}
}

func TestHostInterface(t *testing.T) {
	name := web.HostInterface()
	for _, other := range []ID{{"5b0c", "net2"}, {"5b0d", "net1"}, {"5b0cn", "et1"}} {
		if other.HostInterface() == name {
			t.Errorf("%v has the same name", other)
		}
	}
	// The name stays the same from release to release.
	if want := "pod247a35d2cb39"; name != want || !IsHostInterface(name) {
		t.Errorf("got %s, want %s", name, want)
	}
	for _, other := range []string{"pod2", "pod2-17", "pod247a35d2cb3", "pod247a35d2cb3g", "eth0", "vethf7e1e2c6b73"} {
		if IsHostInterface(other) {
			t.Errorf("%s is not the name of such an interface", other)
		}
	}
}
