//go:build linux

package cni

import (
	"os"
	"strings"
	"testing"
	"time"
)

func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// keepsNoDescriptor waits for the server, which closes its descriptors in the background.
func keepsNoDescriptor(t *testing.T, before int) {
	t.Helper()
	after := openDescriptors(t)
	for range 100 {
		if after <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
		after = openDescriptors(t)
	}
	t.Errorf("%d descriptors before, %d after", before, after)
}

func TestRefusedRequests(t *testing.T) {
	const head = `{"version":1,"command":"ADD","containerID":"5b0c","interface":"net1","network":"default.blue"`
	const invalid, incompatible = `{"version":1,"error":{"code":102,"message":"`, `{"version":1,"error":{"code":101,"message":"`
	const unreadable = invalid + `pod2-agent cannot read the request of pod2-cni: `
	for _, tt := range []struct {
		name, line string
		files      []string
		want       string
	}{
		{"garbage", "GET / HTTP/1.1\n", nil, unreadable + `invalid character 'G' looking for beginning of value"}}`},
		{"a list", "[]\n", nil, unreadable + `json: cannot unmarshal array into Go value of type cni.request"}}`},
		{"no version", "{}\n", nil, incompatible + `pod2-agent uses version 1 of its protocol, and pod2-cni sent version 0: install the pod2-cni of the same release on this node"}}`},
		{"another version, with other fields", `{"version":2,"command":{"name":"ADD"}}` + "\n", nil,
			incompatible + `pod2-agent uses version 1 of its protocol, and pod2-cni sent version 2: install the pod2-cni of the same release on this node"}}`},
		{"another version, with an address of nothing", `{"version":2,"command":"ADD","ips":["a"]}` + "\n", nil,
			incompatible + `pod2-agent uses version 1 of its protocol, and pod2-cni sent version 2: install the pod2-cni of the same release on this node"}}`},
		{"oversize", head + `,"mac":"` + strings.Repeat("a", MaxMessage) + `"}` + "\n", []string{netnsPath}, unreadable + `it exceeds 65536 bytes"}}`},
		{"endless", strings.Repeat("a", 2*MaxMessage), nil, unreadable + `it exceeds 65536 bytes"}}`},
		{"two requests", head + "}\n" + head + "}\n", []string{netnsPath}, unreadable + `something follows the first line"}}`},
		{"unknown command", `{"version":1,"command":"VERSION"}` + "\n", nil, invalid + `pod2-agent does not know the command \"VERSION\""}}`},
		{"a command that earlier plugins send", `{"version":1,"command":"LIST"}` + "\n", nil, invalid + `pod2-agent does not know the command \"LIST\""}}`},
		{"no descriptor", head + "}\n", nil, invalid + `ADD has 0 descriptors: it needs one, the pod's network namespace"}}`},
		{"two descriptors", head + "}\n", []string{netnsPath, netnsPath}, invalid + `ADD has 2 descriptors: it needs one, the pod's network namespace"}}`},
		{"many descriptors", head + "}\n", []string{netnsPath, netnsPath, netnsPath, netnsPath, netnsPath, netnsPath, netnsPath}, unreadable + `it has too many descriptors"}}`},
		{"a file", head + "}\n", []string{"/dev/null"}, invalid + `the descriptor of ADD is not a namespace"}}`},
		{"another kind of namespace", head + "}\n", []string{"/proc/self/ns/mnt"}, invalid + `the descriptor of ADD is a namespace, but not a network namespace"}}`},
		{"descriptor of DEL", strings.Replace(head, "ADD", "DEL", 1) + "}\n", []string{netnsPath}, invalid + `DEL has 1 descriptors, and needs none"}}`},
		{"no network", `{"version":1,"command":"DEL","containerID":"5b0c","interface":"net1"}` + "\n", nil, invalid + `the name of the network has 0 bytes: it must have 1 to 253"}}`},
		{"path as container ID", `{"version":1,"command":"DEL","containerID":"../a","interface":"net1","network":"a.b"}` + "\n", nil,
			invalid + `container ID \"../a\": must have 1 to 128 printable characters without '/'"}}`},
		{"long interface", `{"version":1,"command":"DEL","containerID":"5b0c","interface":"0123456789abcdef","network":"a.b"}` + "\n", nil,
			invalid + `interface \"0123456789abcdef\": must have 1 to 15 printable characters without '/' and ':', and not be lo"}}`},
		{"loopback", `{"version":1,"command":"DEL","containerID":"5b0c","interface":"lo","network":"a.b"}` + "\n", nil,
			invalid + `interface \"lo\": must have 1 to 15 printable characters without '/' and ':', and not be lo"}}`},
		{"valid attachment without an interface", `{"version":1,"command":"GC","network":"a.b","validAttachments":[{"containerID":"5b0c"}]}` + "\n", nil,
			invalid + `interface \"\": must have 1 to 15 printable characters without '/' and ':', and not be lo"}}`},
		{"address without a prefix length", head + `,"ips":["192.168.0.2"]}` + "\n", []string{netnsPath}, unreadable + `netip.ParsePrefix(\"192.168.0.2\"): no '/'"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := openDescriptors(t)
			j := &journal{}
			path, refused := start(t, &Server{Handler: j})
			got := strings.ReplaceAll(send(t, path, tt.line, tt.files...), `\u003c`, "<")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if reasons := refused(); j.String() != "" || strings.Count(reasons, "\n") != 0 || reasons == "" {
				t.Errorf("handled %q, refused %q", j, reasons)
			}
			keepsNoDescriptor(t, before)
		})
	}
}
