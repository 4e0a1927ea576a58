package docs

import (
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestLinks finds the target of every link between the files of the project, with its heading.
// It does not fetch links to other sites.
func TestLinks(t *testing.T) {
	git := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	git.Dir = ".."
	out, err := git.Output()
	files := strings.Fields(string(out))
	if err != nil || len(files) < 10 {
		t.Fatalf("list the pages of the project: found %d, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasPrefix(file, "test/bench/") { // templates of pages that are checked themselves
			continue
		}
		for _, link := range links(readText(t, filepath.Join("..", file))) {
			if why := dead(t, file, link); why != "" {
				t.Errorf("%s: link %s: %s", file, link, why)
			}
		}
	}
}

var (
	fence      = regexp.MustCompile("(?ms)^( *)(```+|~~~+).*?^ *(?:```+|~~~+)$")
	span       = regexp.MustCompile("``[^`]+``|`[^`]+`")
	comment    = regexp.MustCompile(`(?s)<!--.*?-->`)
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+["'][^)]*)?\)`)
	definition = regexp.MustCompile(`(?m)^ {0,3}\[[^\]^]+\]:\s+(\S+)`)
	attribute  = regexp.MustCompile(`(?:href|src|srcset)="([^"\s]+)`)
	identifier = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	heading    = regexp.MustCompile(`(?m)^ {0,3}#{1,6} +(.+?) *#*$`)
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// links returns the targets of the links and pictures of a page.
func links(text string) (found []string) {
	text = comment.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	text = span.ReplaceAllString(text, "code")
	for _, pattern := range []*regexp.Regexp{inlineLink, definition, attribute} {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
	}
	return found
}

// target returns the file and the heading that a link of a file names, or "" if the link
// leads elsewhere.
func target(file, link string) (to, heading string, err error) {
	parsed, err := url.Parse(link)
	switch {
	case err != nil || parsed.Scheme != "" || parsed.Host != "":
		return "", "", err
	case parsed.Path == "":
		return file, parsed.Fragment, nil
	}
	return path.Join(path.Dir(file), parsed.Path), parsed.Fragment, nil
}

// dead returns why a link of a file has no target, or "".
func dead(t *testing.T, file, link string) string {
	t.Helper()
	to, heading, err := target(file, link)
	if err != nil {
		return err.Error()
	}
	info, err := os.Stat(filepath.Join("..", filepath.FromSlash(to)))
	switch {
	case to == "":
		return ""
	case to == ".." || strings.HasPrefix(to, "../") || err != nil:
		return "the project has no such file"
	case heading == "" || info.IsDir() || path.Ext(to) != ".md":
		return ""
	case !anchors(readText(t, filepath.Join("..", to)))[heading]:
		return "the page has no such heading"
	}
	return ""
}

// anchors returns the identifiers that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range identifier.FindAllStringSubmatch(text, -1) {
		all[match[1]] = true
	}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := slug(linkText.ReplaceAllString(match[1], "$1"))
		unique := name
		for i := 1; all[unique]; i++ {
			unique = name + "-" + strconv.Itoa(i)
		}
		all[unique] = true
	}
	return all
}

func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func TestDeadLinksAreFound(t *testing.T) {
	page := "# A `page`, [linked](x.md)\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n[no](link.md)\n```\n"
	for _, anchor := range []string{"a-page-linked", "twice", "twice-1"} {
		if !anchors(page)[anchor] {
			t.Errorf("no anchor %s in %v", anchor, anchors(page))
		}
	}
	if len(anchors(page)) != 3 {
		t.Errorf("got %v", anchors(page))
	}
	text := "[a](b.md) `[no](code.md)` <!-- [no](comment.md) --> [two\nlines](c.md#d \"title\") ![e](f.svg)\n\n[g]: h.md\n\n<img src=\"i.svg\">\n"
	if got := strings.Join(links(text), " "); got != "b.md c.md#d f.svg h.md i.svg" {
		t.Errorf("got %s", got)
	}
	for link, want := range map[string]string{
		"nowhere.md": "the project has no such file", "README.md": "", "../../README.md#first-steps-on-your-cluster": "", "../../README.md#nowhere": "the page has no such heading",
		"../../..": "the project has no such file", "https://example.com/nowhere": "", "#nowhere": "the page has no such heading", "..": "", "../../LICENSE": "",
	} {
		if got := dead(t, "docs/contributing/README.md", link); got != want {
			t.Errorf("%s: got %q, want %q", link, got, want)
		}
	}
}
