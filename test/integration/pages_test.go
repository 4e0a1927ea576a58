//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notRun are the fences of tutorials and how-to guides that no test on the local control
// plane runs, by the word after `console`, and why.
var notRun = map[string]string{
	"make":       "builds and starts clusters in the checkout: .ci/run runs these targets",
	"alerts":     "make alerts builds promtool: make test runs it",
	"controller": "never ends: the tests of pages run the controller, with more flags",
	"dashboard":  "serves until Ctrl-C: TestDashboard and make dashboard-test run it",
	"drain":      "empties a node of all tests: make demo drains one",
	"registry":   "needs a registry: TestImages of hack/release pushes to one",
	"nodes":      "needs kubelets that run containers: test/e2e has the same steps",
	"remove":     "ends the rest of the page: TestAPIServerIsAway and each test of pod2-apiserver do the same",
	"aggregated": "KWOK runs no container: the test starts pod2-apiserver",
	"helm":       "installs objects that the cluster of all tests already has: TestHelm does the same on its own cluster",
	"kustomize":  "creates objects that the cluster of all tests already has: TestKustomize compares the objects",
}

// page is a tutorial or a how-to guide, and the cluster that its reader has.
type page struct {
	namespace string // that the page itself creates, if it does
	skipped   string // the words of its fences that are not run, in order
	prepare   func(t *testing.T, namespace string)
}

// userPages are typed as a reader types them: manifests are saved as files, commands run in
// order, and have to print the text that follows them.
var userPages = map[string]page{
	"docs/tutorials/quickstart.md":    {skipped: "make make make", prepare: demo},
	"docs/tutorials/first-network.md": {skipped: "nodes", prepare: validationPolicies},
	"docs/tutorials/mysql.md":         {namespace: "shop"},

	"docs/how-to/any-workload.md":                       {namespace: "any-workload", prepare: admissionPolicy},
	"docs/how-to/autoscaling-and-disruption-budgets.md": {namespace: "autoscaling", skipped: "drain"},
	"docs/how-to/back-up-and-restore.md":                {namespace: "backup", prepare: validationPolicies},
	"docs/how-to/choose-addresses.md":                   {namespace: "choose-addresses", prepare: admissionPolicy},
	"docs/how-to/dashboard.md":                          {skipped: "dashboard"},
	"docs/how-to/dns.md":                                {namespace: "dns"},
	"docs/how-to/earlier-holders.md":                    {namespace: "earlier-holders"},
	"docs/how-to/grow-a-network.md":                     {namespace: "grow-a-network"},
	"docs/how-to/macvlan.md":                            {namespace: "macvlan"},
	"docs/how-to/monitor.md":                            {namespace: "monitor", skipped: "alerts"},
	"docs/how-to/replace-eth0.md":                       {namespace: "replace-eth0"},
	"docs/how-to/resize-volumes.md":                     {},
	"docs/how-to/roll-out-and-undo.md":                  {namespace: "roll-out-and-undo"},
	"docs/how-to/sidecars.md": {namespace: "proxies", prepare: func(t *testing.T, _ string) {
		needsMutation(t)
		install(t)
	}},

	"docs/reference/manifests.md": {prepare: admissionPolicy},
}

// otherPages are run by tests of their own.
var otherPages = []string{
	"docs/how-to/install.md", "docs/how-to/upgrade.md", "docs/how-to/uninstall.md", // TestInstallUpgradeUninstallPages
	"docs/how-to/multi-tenancy.md",            // TestTenantsPage
	"docs/how-to/migrate-from-statefulset.md", // TestMigrateFromStatefulSet
	"docs/how-to/list-addresses.md",           // TestListAddressesPage
}

func TestUserPages(t *testing.T) {
	t.Parallel()
	for file, p := range userPages {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if p.prepare != nil {
				p.prepare(t, ns)
			}
			served := ns
			if p.namespace != "" {
				served = p.namespace
				sweepAfter(t, served)
			}
			startController(t, served)
			if file == "docs/tutorials/quickstart.md" {
				waitDemo(t, ns)
			}
			runUserPage(t, ns, checkout(t), file, p.skipped)
		})
	}
}

// Not parallel: the controller serves all namespaces.
func TestTenantsPage(t *testing.T) {
	ns := newNamespace(t)
	validationPolicies(t, ns)
	requireUserRoles(t)
	sweepAfter(t, "team-a")
	sweepAfter(t, "team-b")
	startController(t, "")
	runUserPage(t, ns, checkout(t), "docs/how-to/multi-tenancy.md", "")
}

// An administrator installs Pod2, upgrades it to the same version and removes it. KWOK runs no
// container, so the controller of the Deployment runs here.
//
// Not parallel: the controller serves all namespaces, and the CRDs are deleted.
func TestInstallUpgradeUninstallPages(t *testing.T) {
	needsMutation(t)
	install(t)
	dir := checkout(t)
	startController(t, "", "--kubeconfig", asServiceAccount(t))
	restoreCRDs(t)
	runUserPage(t, "default", dir, "docs/how-to/install.md", "helm helm helm kustomize registry controller")
	runUserPage(t, "default", dir, "docs/how-to/upgrade.md", "helm")
	runUserPage(t, "default", dir, "docs/how-to/uninstall.md", "helm helm nodes")
	installation.there = false // no test runs beside this one
	if left := run(t, "", "get", "crds,clusterroles,mutatingadmissionpolicies,validatingadmissionpolicies", "-o", "name"); strings.Contains(left, "samplecrd") || strings.Contains(left, "pod2") {
		t.Errorf("uninstalled, and there is left\n%s", left)
	}
}

// Every tutorial and how-to guide is run, and says for each command that is not why.
func TestEveryUserPageIsRun(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"tutorials", "how-to"} {
		files, err := filepath.Glob(filepath.Join(root, "docs", dir, "*.md"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d pages in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := userPages[name]; !ok && !slices.Contains(otherPages, name) {
				t.Errorf("no test runs %s", name)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fences := regexp.MustCompile("(?m)^( *)```(.+)$").FindAllStringSubmatch(string(text), -1)
			for _, fence := range fences {
				kind, word, _ := strings.Cut(fence[2], " ")
				if fence[1] != "" {
					t.Errorf("%s has an indented fence ```%s, which nothing runs", name, fence[2])
				}
				if kind == "yaml" && word != "" || kind == "console" && (word == "" || notRun[word] != "") {
					continue
				}
				t.Errorf("%s has a fence ```%s, which nothing runs", name, fence[2])
			}
		}
	}
}

// checkout is a directory in which a reader types commands of a page: with the files of the
// repository that pages name, and with room for those that they have the reader save.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"artifacts", "crd", "example"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "bin/dist"), filepath.Join(dir, "dist")); err != nil { // of make local-release
		t.Fatal(err)
	}
	return dir
}

// demo creates the objects that `make demo` leaves in a namespace.
func demo(t *testing.T, namespace string) {
	t.Helper()
	admissionPolicy(t, namespace)
	run(t, namespace, "create", "-f", filepath.Join(root, "example"))
	run(t, namespace, "scale", "pod2", "web", "--replicas=12")
}

func waitDemo(t *testing.T, namespace string) {
	t.Helper()
	waitReady(t, namespace, "pod2/web")
	run(t, namespace, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	run(t, namespace, "wait", "--for=condition=Complete", "job/report", "--timeout="+patience.String())
	run(t, namespace, "wait", "--for=jsonpath={.status.bound}=14", "network/blue", "--timeout="+patience.String())
	run(t, namespace, "wait", "--for=jsonpath={.status.bound}=12", "network/green", "--timeout="+patience.String())
}

// runUserPage saves the files of a page in dir and types its commands there. Each has to print
// the text that follows it. In that text, "..." matches any text of a line, and a line "..."
// matches any lines. Ages and the widths of columns do not count.
func runUserPage(t *testing.T, namespace, dir, file, skipped string) {
	t.Helper()
	config := inNamespace(t, namespace)
	var words []string
	commands := 0
	for _, b := range pageBlocks(t, file) {
		switch {
		case b.language == "yaml":
			if err := os.WriteFile(filepath.Join(dir, b.word), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case b.language == "console" && b.word != "":
			words = append(words, b.word)
		case b.language == "console":
			for _, s := range b.steps() {
				commands++
				got := typed(t, config, dir, s.command)
				t.Logf("$ %s\n%s", s.command, got)
				if !printed(s.output).MatchString(plain(got)) {
					t.Errorf("%s: $ %s\ngot\n%s\nwant\n%s", file, s.command, got, s.output)
				}
			}
		}
	}
	if commands == 0 {
		t.Errorf("%s: no command was run", file)
	}
	if got := strings.Join(words, " "); got != skipped {
		t.Errorf("%s: fences that are not run are %q, want %q", file, got, skipped)
	}
}

// typed runs a command of a page and returns its output. A refusal is an exit status, too.
func typed(t *testing.T, config, dir, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("$ %s: %v", command, err)
	}
	return string(out)
}

var (
	ages   = regexp.MustCompile(`\b([0-9]+[smhd]){1,2}\b`)
	blanks = regexp.MustCompile(`[ \t]+`)
)

// plain is an output without ages, widths of columns and blanks at the end of lines.
func plain(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(&b, strings.TrimSpace(blanks.ReplaceAllString(ages.ReplaceAllString(line, "AGE"), " ")))
	}
	return b.String()
}

// printed matches the outputs that a page allows.
func printed(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for line := range strings.Lines(plain(want)) {
		if line == "...\n" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}
	return regexp.MustCompile(b.String() + `$`)
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		matches   bool
	}{
		{"web-0   Bound   12s\n", "web-0 Bound 2m13s", true},
		{"web-0 Bound 12s\n", "web-1 Bound 12s", false},
		{"", "", true},
		{"", "surprise", false},
		{"node/... condition met\n...\n", "node/a condition met\nnode/b condition met\n", true},
		{"node/... condition met\n...\n", "node/a condition met\n", true},
		{"node/... condition met\n...\n", "error\nnode/a condition met\n", false},
		{"a...b\n", "a\nb", false},
	} {
		if got := printed(c.want).MatchString(plain(c.got)); got != c.matches {
			t.Errorf("%q and %q: %t", c.want, c.got, got)
		}
	}
}
