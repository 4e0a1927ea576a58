// Package purity checks that the packages that decide are pure: the same state gives the
// same plan, so decisions can be tested and repeated. These packages must not read a clock,
// use random numbers, log, wait, or reach anything outside their arguments.
package purity

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages under the rule, relative to this directory.
var pure = []string{"../../pkg/ipam", "../../pkg/attachment", "../../pkg/plan", "../../pkg/network", "../../pkg/pod2", "../../pkg/crontab", "../../pkg/ordinals", "../../pkg/pod2/dns", "../../pkg/network/multus", "../../pkg/network/addressslice", "../../pkg/network/history", "../../pkg/sidecar", "../../pkg/agent/dataplane", "../../pkg/agent/tables", "../../pkg/agent/authorize", "../../internal/dashboard/view", "../../cmd/pod2-apiserver/projection", "../spec"}

// allowed are the packages that a pure package may import. An entry that ends in "/"
// includes every package below it.
var allowed = []string{
	"bytes", "cmp", "crypto/sha256", "encoding/binary", "encoding/json", "errors", "fmt", "hash/fnv", "iter", "maps", "math",
	"math/bits", "net/netip", "slices", "sort", "strconv", "strings", "time",

	"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/utils/ptr",

	// Only its parser: impure lists its other names.
	"github.com/robfig/cron/v3",

	"github.com/pod2/pod2/internal/shorten", "github.com/pod2/pod2/pkg/apis/", "github.com/pod2/pod2/pkg/ipam", "github.com/pod2/pod2/pkg/attachment", "github.com/pod2/pod2/pkg/plan", "github.com/pod2/pod2/pkg/ordinals",
	"github.com/pod2/pod2/pkg/network", "github.com/pod2/pod2/pkg/pod2", "github.com/pod2/pod2/pkg/network/multus", "github.com/pod2/pod2/pkg/network/addressslice",
	"github.com/pod2/pod2/pkg/agent/dataplane", "github.com/pod2/pod2/cmd/pod2-apiserver/apis/",

	// Only its messages: impure lists its other names.
	"github.com/pod2/pod2/pkg/agent/cni",
}

// refused are packages below an allowed entry that provide clocks, random numbers, locks or
// connections.
var refused = []string{
	"k8s.io/apimachinery/pkg/util/cache", "k8s.io/apimachinery/pkg/util/httpstream/", "k8s.io/apimachinery/pkg/util/net",
	"k8s.io/apimachinery/pkg/util/proxy", "k8s.io/apimachinery/pkg/util/rand", "k8s.io/apimachinery/pkg/util/runtime",
	"k8s.io/apimachinery/pkg/util/uuid", "k8s.io/apimachinery/pkg/util/wait", "k8s.io/apimachinery/pkg/util/waitgroup",
	"k8s.io/apimachinery/pkg/watch",
}

// impure are the names in allowed packages that act or read a clock.
var impure = map[string][]string{
	"time":                                 {"After", "AfterFunc", "LoadLocation", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"fmt":                                  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
	"github.com/pod2/pod2/pkg/agent/cni":   {"Client", "Listen", "Server"},
	"github.com/robfig/cron/v3":            {"New", "DefaultLogger", "DiscardLogger", "PrintfLogger", "VerbosePrintfLogger"},
}

// packageNames are the package names that differ from the last part of the path.
var packageNames = map[string]string{"github.com/robfig/cron/v3": "cron"}

func TestPurePackages(t *testing.T) {
	for _, dir := range pure {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			if len(files) == 0 {
				t.Fatalf("no package in %s: if it moved, change its path in this list", dir)
			}
			for _, f := range files {
				for _, complaint := range complaints(t, f, nil) {
					t.Error(complaint)
				}
			}
		})
	}
}

// complaints returns the impure places of a file, in the order of the text. src is the same
// as for parser.ParseFile.
func complaints(t *testing.T, name string, src any) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	complain := func(n ast.Node, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	imports := map[string]string{}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		local := cmp.Or(packageNames[p], path.Base(p))
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = p
		switch {
		case !listed(allowed, p) || listed(refused, p):
			complain(spec, "imports %s, which a pure package may not import", p)
		case local == ".":
			complain(spec, "imports %s with a dot, so its names are not checked", p)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[imports[pkg.Name]], n.Sel.Name) {
				complain(n, "uses %s.%s: take the time from the state, and return text to the caller", pkg.Name, n.Sel.Name)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				complain(n, "calls %s: return text to the caller", f.Name)
			}
		case *ast.GoStmt:
			complain(n, "starts a goroutine")
		case *ast.ChanType:
			complain(n, "uses a channel")
		case *ast.SelectStmt:
			complain(n, "uses select")
		case *ast.SendStmt:
			complain(n, "sends on a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				complain(n, "receives from a channel")
			}
		}
		return true
	})
	return out
}

func listed(list []string, p string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return p == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(p, entry)
	})
}

// Each rule must find a violation, or it checks nothing.
func TestComplaints(t *testing.T) {
	const advice = ": take the time from the state, and return text to the caller"
	const unlisted = ", which a pure package may not import"
	for _, tt := range []struct{ name, src, want string }{
		{"pure", `import ("fmt"; "time"; "k8s.io/api/core/v1"); func f(now time.Time) string { return fmt.Sprint(now.After(now), v1.Pod{}) }`, ""},
		{"I/O", `import _ "os"`, "1:19: imports os" + unlisted},
		{"a client", `import _ "k8s.io/client-go/kubernetes"`, "1:19: imports k8s.io/client-go/kubernetes" + unlisted},
		{"a Pod2 package with I/O", `import _ "github.com/pod2/pod2/pkg/reconcile"`, "1:19: imports github.com/pod2/pod2/pkg/reconcile" + unlisted},
		{"a prefix that is not a directory", `import _ "k8s.io/apiserver"`, "1:19: imports k8s.io/apiserver" + unlisted},
		{"random numbers of apimachinery", `import _ "k8s.io/apimachinery/pkg/util/rand"`, "1:19: imports k8s.io/apimachinery/pkg/util/rand" + unlisted},
		{"dot import", `import . "time"`, "1:19: imports time with a dot, so its names are not checked"},
		{"clock", `import "time"; var t = time.Now()`, "1:35: uses time.Now" + advice},
		{"clock as a value", `import "time"; var f = time.Since`, "1:35: uses time.Since" + advice},
		{"clock by another name", `import x "time"; func f() { x.Sleep(1) }`, "1:40: uses x.Sleep" + advice},
		{"clock of apimachinery", `import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"; var t = metav1.Now()`, "1:74: uses metav1.Now" + advice},
		{"a scheduler", `import "github.com/robfig/cron/v3"; var c = cron.New()`, "1:56: uses cron.New" + advice},
		{"a socket", `import "github.com/pod2/pod2/pkg/agent/cni"; var c = cni.Client{}`, "1:65: uses cni.Client" + advice},
		{"output", `import "fmt"; func f() { fmt.Println() }`, "1:37: uses fmt.Println" + advice},
		{"output without import", `func f() { println() }`, "1:23: calls println: return text to the caller"},
		{"goroutine", `func f() { go f() }`, "1:23: starts a goroutine"},
		{"channel", `func f(c chan int) { c <- <-c }`, "1:21: uses a channel\n1:33: sends on a channel\n1:38: receives from a channel"},
		{"select", `func f() { select {} }`, "1:23: uses select"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(complaints(t, "", "package p; "+tt.src), "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
