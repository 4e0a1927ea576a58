package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// The library is that of npm's lit-html 3.3.1, unchanged. `npm pack lit-html@3.3.1` has it.
func TestVendoredLibrary(t *testing.T) {
	text, err := web.ReadFile("web/vendor/lit-html.js")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != litHTML {
		t.Errorf("the checksum of lit-html.js is %s, want %s", got, litHTML)
	}
	if licence, err := web.ReadFile("web/vendor/lit-html.LICENSE"); err != nil || !strings.HasPrefix(string(licence), "BSD 3-Clause License") {
		t.Errorf("licence: %.40q, %v", licence, err)
	}
}

// The page sends requests to nobody else, and turns no text of the cluster into markup.
func TestPageIsClosed(t *testing.T) {
	refused := regexp.MustCompile(`(https?:)?//[a-z]+\.[a-z]|innerHTML|outerHTML|insertAdjacentHTML|document\.write|unsafeHTML|\beval\b|style="`)
	err := fs.WalkDir(web, "web", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "/vendor/") {
			return err
		}
		text, err := web.ReadFile(path)
		for _, found := range refused.FindAllString(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), -1) {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const litHTML = "34ac3236b93fce62ff261d25c3039d82521f78f83bf6f77d04fec74796f1371a"
