package attachment

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var blue = element("blue", "192.168.0.2/16")

func element(request, address string) Element {
	requests, err := ParseRequests(request)
	if err != nil {
		panic(err)
	}
	return Element{requests[0], bound(address, "")}
}

// routed is an element of a Network with this gateway.
func routed(request, address, gateway string) Element {
	e := element(request, address)
	if gateway != "" {
		e.Address.Gateway = netip.MustParseAddr(gateway)
	}
	return e
}

// appendTo calls AppendMultus for the list only.
func appendTo(existing, namespace string, add ...Element) (string, error) {
	multus, err := AppendMultus(map[string]string{v1.MultusAnnotation: existing}, namespace, add)
	return multus.Networks, err
}

// The function returns our element for blue, with the expected interface.
func ours(iface string) string {
	return `{"name":"blue","namespace":"default","interface":"` + iface + `","ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}`
}

func TestAppendMultus(t *testing.T) {
	for _, tt := range []struct{ name, existing, want string }{
		{"none", ``, `[` + ours("net1") + `]`},
		{"blank", " \n", `[` + ours("net1") + `]`},
		{"empty list", `[]`, `[` + ours("net1") + `]`},
		{"short form", "a, ns/b@eth1", `[{"name":"a"},{"name":"b","namespace":"ns","interface":"eth1"},` + ours("net3") + `]`},
		{"short form, lenient as Multus", "/a@, b", `[{"name":"a"},{"name":"b"},` + ours("net3") + `]`},
		{"unknown fields and number formats stay", `[ {"name":"a", "cni-args":{"b":1.50,"a":12345678901234567890}} ]`,
			`[{"name":"a","cni-args":{"b":1.50,"a":12345678901234567890}},` + ours("net2") + `]`},
		{"another element has our interface", `[{"name":"a","interface":"net2"},{"name":"b","interface":"net4"}]`,
			`[{"name":"a","interface":"net2"},{"name":"b","interface":"net4"},` + ours("net3") + `]`},
		{"another element has the next interface", `[{"name":"a","interface":"net3"},{"name":"b","interface":"net4"}]`,
			`[{"name":"a","interface":"net3"},{"name":"b","interface":"net4"},` + ours("net5") + `]`},
		{"never below our position", `[{"name":"a","interface":"eth1"}]`,
			`[{"name":"a","interface":"eth1"},` + ours("net2") + `]`},
		{"already there", `[` + ours("x") + `,{"name":"a"}]`, `[` + ours("x") + `,{"name":"a"}]`},
		{"already there, in the pod's namespace by default", `[{"name":"blue","ips":["192.168.0.2/16"]}]`, `[{"name":"blue","ips":["192.168.0.2/16"]}]`},
		{"another element: other namespace", `[{"name":"blue","namespace":"ns","ips":["192.168.0.2/16"]}]`,
			`[{"name":"blue","namespace":"ns","ips":["192.168.0.2/16"]},` + ours("net2") + `]`},
		{"another element: other name", `[{"name":"a","ips":["192.168.0.2/16"]}]`,
			`[{"name":"a","ips":["192.168.0.2/16"]},` + ours("net2") + `]`},
		{"another element: other address", `[{"name":"blue","ips":["192.168.0.3/16"]}]`,
			`[{"name":"blue","ips":["192.168.0.3/16"]},` + ours("net2") + `]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := appendTo(tt.existing, "default", blue)
			if err != nil {
				t.Fatal(err)
			}
			if text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			if again, err := appendTo(text, "default", blue); err != nil || again != text {
				t.Errorf("%s\ndiffers the second time: %s, %v", text, again, err)
			}
		})
	}
}

func TestAppendMultusInNameOrder(t *testing.T) {
	text, err := appendTo("x@net3", "ns", element("c", "10.0.0.3/24"), element("a", "10.0.0.1/24"), element("b", "fd00::2/64"))
	want := `[{"name":"x","interface":"net3"}` +
		`,{"name":"a","namespace":"ns","interface":"net2","ips":["10.0.0.1/24"],"mac":"0a:58:0a:00:00:01"}` +
		`,{"name":"b","namespace":"ns","interface":"net4","ips":["fd00::2/64"],"mac":"0a:58:00:00:00:02"}` +
		`,{"name":"c","namespace":"ns","interface":"net5","ips":["10.0.0.3/24"],"mac":"0a:58:0a:00:00:03"}]`
	if err != nil || text != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}

func TestAppendMultusOfNothingIsAList(t *testing.T) {
	if text, err := appendTo("", "default"); err != nil || text != "[]" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAppendMultusRefuses(t *testing.T) {
	const reading = `annotation k8s.v1.cni.cncf.io/networks: read the networks that the pod already requests from Multus: `
	const notAList = reading + `not a JSON list such as [{"name":"a"}], nor the short form "a, ns/b@eth1": `
	const short = `: write "name", "namespace/name" or "namespace/name@interface"`
	for _, tt := range []struct{ in, want string }{
		{`{"name":"a"}`, notAList + `json: cannot unmarshal object into Go value of type []json.RawMessage`},
		{`[{"name":"a"}`, notAList + `unexpected end of JSON input`},
		{`[{"name":"a"},"b"]`, reading + `element 2 ("\"b\"") is not a network such as {"name":"a"}: json: cannot unmarshal string into Go value of type attachment.selection`},
		{`[{"name":"a","ips":"10.0.0.1"}]`, reading + `element 1 ("{\"name\":\"a\",\"ips\":\"10.0.0.1\"}") is not a network such as {"name":"a"}: json: cannot unmarshal string into Go struct field selection.ips of type []string`},
		{`[null]`, reading + `element 1 ("null") has no name: write for example {"name":"a"}`},
		{`[{"namespace":"ns"}]`, reading + `element 1 ("{\"namespace\":\"ns\"}") has no name: write for example {"name":"a"}`},
		{`a,`, reading + `element 2 ("") names no network` + short},
		{`ns/@eth1`, reading + `element 1 ("ns/@eth1") names no network` + short},
		{`a/b/c`, reading + `element 1 ("a/b/c") has an unexpected '/'` + short},
		{`a@b@c`, reading + `element 1 ("a@b@c") has an unexpected '@'` + short},
		{`a@b/c`, reading + `element 1 ("a@b/c") has an unexpected '@'` + short},
		{"a\xff", reading + `"a\xff" is not UTF-8: write for example "a, ns/b@eth1"`},
		{`a b`, reading + `element 1 ("a b") has an unexpected ' '` + short},
	} {
		t.Run(tt.in, func(t *testing.T) {
			text, err := appendTo(tt.in, "default", blue)
			if err == nil {
				t.Fatalf("accepted: %s", text)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

// checkMultus returns the property that AppendMultus broke, or "".
func checkMultus(existing string, add []Element, result string) string {
	var elements []selection
	if err := json.Unmarshal([]byte(result), &elements); err != nil {
		return err.Error()
	}
	_, foreign, err := parseMultus(existing)
	if err != nil || len(foreign) > len(elements) {
		return fmt.Sprintf("%d elements are left of %d, %v", len(elements), len(foreign), err)
	}
	for i, s := range foreign {
		if fmt.Sprint(elements[i]) != fmt.Sprint(s) {
			return fmt.Sprintf("element %d was %v and is %v", i+1, s, elements[i])
		}
	}
	holders := map[string][]string{}
	for i, s := range elements {
		iface := s.Interface
		if iface == "" {
			iface = fmt.Sprint("net", i+1)
		}
		holders[iface] = append(holders[iface], s.Name)
	}
	for _, s := range elements[len(foreign):] {
		if h := holders[s.Interface]; len(h) != 1 {
			return fmt.Sprintf("%s shares interface %s: %s", s.Name, s.Interface, strings.Join(h, ", "))
		}
	}
	if again, err := appendTo(result, "default", add...); err != nil || again != result {
		return fmt.Sprintf("differs the second time: %s, %v", again, err)
	}
	return ""
}

func TestAppendMultusKeepsInterfacesApart(t *testing.T) {
	r := seeded(t)
	refused := 0
	for range 2000 {
		var existing []string
		for i := range r.IntN(6) {
			element := fmt.Sprint("foreign", i)
			if r.IntN(2) == 0 {
				element += fmt.Sprint("@net", 1+r.IntN(8))
			}
			existing = append(existing, element)
		}
		var add []Element
		for i, name := range names(r, 0) {
			if r.IntN(3) == 0 {
				name += fmt.Sprint("@net", 1+i+r.IntN(2)*8)
			}
			add = append(add, element(name, address(r).String()+"/24"))
		}
		text, err := appendTo(strings.Join(existing, ","), "default", add...)
		if err != nil && strings.Contains(err.Error(), ": name another") {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if broken := checkMultus(strings.Join(existing, ","), add, text); broken != "" {
			t.Fatalf("%v plus %v is %s: %s", existing, add, text, broken)
		}
	}
	if refused == 0 || refused > 1500 {
		t.Errorf("%d of 2000 were refused", refused)
	}
}

func TestAppendMultusOnNamedInterfaces(t *testing.T) {
	for _, tt := range []struct{ name, existing, request, want string }{
		{"named", "", "blue@data0", `[` + ours("data0") + `]`},
		{"the interface of another element", "a", "blue@net1", `annotation k8s.v1.cni.cncf.io/networks: interface net1 of Network blue is already used by network "a": name another`},
		{"the named interface of another element", "a@data0", "blue@data0", `annotation k8s.v1.cni.cncf.io/networks: interface data0 of Network blue is already used by network "a": name another`},
		{"already there", `[` + ours("data0") + `]`, "blue@data0", `[` + ours("data0") + `]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := appendTo(tt.existing, "default", element(tt.request, "192.168.0.2/16"))
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A requested name belongs to no other element, in any order.
func TestAppendMultusLeavesNamedInterfaces(t *testing.T) {
	text, err := appendTo("", "ns", element("a", "10.0.0.1/24"), element("b@net1", "10.0.0.2/24"))
	want := `[{"name":"a","namespace":"ns","interface":"net2","ips":["10.0.0.1/24"],"mac":"0a:58:0a:00:00:01"}` +
		`,{"name":"b","namespace":"ns","interface":"net1","ips":["10.0.0.2/24"],"mac":"0a:58:0a:00:00:02"}]`
	if err != nil || text != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}

func TestDefaultNetwork(t *testing.T) {
	const blueIsDefault = `[{"name":"blue","namespace":"default","ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02","default-route":["192.168.0.1"]}]`
	const withoutGateway = `[{"name":"blue","namespace":"default","ips":["192.168.0.2/32"],"mac":"0a:58:c0:a8:00:02"}]`
	const refused = `annotation v1.multus-cni.io/default-network: eth0 is requested by Network blue and by `
	const remedy = `: remove the annotation, or request another interface`
	for _, tt := range []struct{ name, existing, address, gateway, want string }{
		{"none", "", "192.168.0.2/16", "192.168.0.1", blueIsDefault},
		{"already there", blueIsDefault, "192.168.0.2/16", "192.168.0.1", blueIsDefault},
		{"already there, without its route", `[{"name":"blue","ips":["192.168.0.2/16"]}]`, "192.168.0.2/16", "192.168.0.1", blueIsDefault},
		{"a Network without a gateway", "", "192.168.0.2/32", "", withoutGateway},
		{"another network", "macvlan", "192.168.0.2/16", "192.168.0.1", refused + `"macvlan"` + remedy},
		{"with another address", `[{"name":"blue","ips":["192.168.0.3/16"]}]`, "192.168.0.2/16", "192.168.0.1", refused + `"[{\"name\":\"blue\",\"ips\":[\"192.168.0.3/16\"]}]"` + remedy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			multus, err := AppendMultus(map[string]string{v1.MultusDefaultAnnotation: tt.existing}, "default", []Element{routed("blue@eth0", tt.address, tt.gateway)})
			got := multus.DefaultNetwork
			if err != nil {
				got = err.Error()
			} else if multus.Networks != "[]" {
				t.Errorf("also %s", multus.Networks)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestDefaultNetworkIsLeftAlone(t *testing.T) {
	multus, err := AppendMultus(map[string]string{v1.MultusDefaultAnnotation: "macvlan"}, "default", []Element{blue})
	if err != nil || multus.DefaultNetwork != "" {
		t.Errorf("wrote %q, %v", multus.DefaultNetwork, err)
	}
}
