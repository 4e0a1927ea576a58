//go:build site

package docs

import (
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "embed"
)

const (
	site       = "../public"
	repository = "https://github.com/pod2/pod2/blob/main/"
)

// sitePages returns the HTML of each page of the site, by its path.
func sitePages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(site, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" {
			return err
		}
		text, err := os.ReadFile(file)
		all[filepath.ToSlash(strings.TrimPrefix(file, filepath.FromSlash(site)+string(filepath.Separator)))] = string(text)
		return err
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("found %d pages in public: run `make docs` first (%v)", len(all), err)
	}
	return all
}

var (
	siteLink   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	siteAnchor = regexp.MustCompile(`\b(?:id|name)="([^"]*)"`)
)

// TestSiteLinks finds the target of every link within the site that `make docs` builds, and
// to files of the repository.
func TestSiteLinks(t *testing.T) {
	all := sitePages(t)
	anchors := map[string]map[string]bool{}
	for page, text := range all {
		anchors[page] = map[string]bool{"": true}
		for _, match := range siteAnchor.FindAllStringSubmatch(text, -1) {
			anchors[page][html.UnescapeString(match[1])] = true
		}
	}
	links := 0
	for page, text := range all {
		for _, match := range siteLink.FindAllStringSubmatch(text, -1) {
			links++
			if why := broken(page, html.UnescapeString(match[1]), anchors); why != "" {
				t.Errorf("%s: link %s: %s", page, match[1], why)
			}
		}
	}
	if links < 10*len(all) { // each page has the whole navigation
		t.Errorf("%d links on %d pages: the pattern of links misses some", links, len(all))
	}
}

// broken returns why a link has no target, or "".
func broken(page, link string, anchors map[string]map[string]bool) string {
	if file, ok := strings.CutPrefix(link, repository); ok {
		file, _, _ = strings.Cut(file, "#")
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(file))); err != nil {
			return "the repository has no such file"
		}
		return ""
	}
	file, heading, err := target(page, link)
	if err != nil {
		return err.Error()
	}
	info, err := os.Stat(filepath.Join(site, filepath.FromSlash(file)))
	switch {
	case file == "":
		return ""
	case err != nil || info.IsDir():
		return "the site has no such file"
	case path.Ext(file) == ".html" && !anchors[file][heading]:
		return "the page has no such heading"
	}
	return ""
}

// report is the result that browser.html sends.
type report struct {
	Visited  []string
	Problems []string
}

//go:embed testdata/browser.html
var browser string

// Injected into each page: the test has to hear of errors in the page's own scripts.
const listener = `<head><script>
addEventListener("error", (e) => parent.problem(location.pathname + ": " + (e.message || "cannot load " + (e.target.src || e.target.href))), true);
addEventListener("unhandledrejection", (e) => parent.problem(location.pathname + ": " + e.reason));
</script>`

// TestBrowser opens the site in Chromium, in a frame as wide as a phone. It follows every
// link of the navigation, searches, and uses the menu. It fails on a script error and on a
// page that is wider than the frame.
func TestBrowser(t *testing.T) {
	all := sitePages(t)
	chromium := find(t, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
	done := make(chan report, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /test/browser.html", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, browser) })
	mux.HandleFunc("POST /test/report", func(_ http.ResponseWriter, r *http.Request) {
		var got report
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			got.Problems = []string{"read the report of the browser: " + err.Error()}
		}
		select {
		case done <- got:
		default:
		}
	})
	files := http.FileServer(http.Dir(site))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if text, ok := all[strings.TrimPrefix(r.URL.Path, "/")]; ok {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, strings.Replace(text, "<head>", listener, 1))
			return
		}
		files.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", server.URL+"/test/browser.html")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()

	select {
	case got := <-done:
		for _, problem := range got.Problems {
			t.Error(problem)
		}
		for page := range all {
			found := false
			for _, visited := range got.Visited {
				found = found || visited == "/"+page
			}
			if !found {
				t.Errorf("the navigation does not lead to %s", page)
			}
		}
		t.Logf("visited %d pages", len(got.Visited))
	case <-time.After(5 * time.Minute):
		t.Fatal("the browser sent no report within five minutes")
	}
}

func find(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	t.Fatalf("none of %s is installed: on Debian, run `apt-get install chromium`", strings.Join(names, ", "))
	return ""
}
