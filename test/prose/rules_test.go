package prose

import (
	"fmt"
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"The pod is over.", "terminated"},
		{"It is not over yet that the packet is sent over IPv6.", "terminated"},
		{"The packet is sent over IPv6.", ""},
		{"It was for want of a free address.", "because"},
		{"The address is kept, so that the pod comes back with it.", "so"},
		{"Restart the pod so that it reads the file.", ""},
		{"It waits, for the pod is there.", "because"},
		{"It waits for the pod that is there.", ""},
		{"It says what it does.", "what"},
		{"What does it do?", ""},
		{"Run `what` now.", ""},
		{"Pods that ask who they are.", "who"},
		{"Users who may write pods.", ""},
		{"The user, who waits.", ""},
	} {
		got := strings.Join(faults(Sentence{Text: c.text}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want a fault with %q", c.text, got, c.want)
		}
	}
}

func TestSentences(t *testing.T) {
	text := "Read main.go first. It wires\nall of it (see e.g. the table). `Sync` comes next! Does it?\nYes."
	want := `f:7: Read main.go first.
f:7: It wires all of it (see e.g. the table).
f:8: ` + "`Sync`" + ` comes next!
f:8: Does it?
f:9: Yes.
`
	got := ""
	for _, s := range sentences("f", 7, text) {
		got += fmt.Sprintln(s)
	}
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestSemicolonsInTables(t *testing.T) {
	for file, want := range map[string]int{"docs/faq.md": 1, "docs/contributing/tests.md": 0} {
		for _, cell := range []bool{true, false} {
			if got := faults(Sentence{File: file, Text: "one fact; another, `a;b`", Cell: cell}); cell && len(got) != want || !cell && len(got) != 0 {
				t.Errorf("%s, in a table %t: %v", file, cell, got)
			}
		}
	}
}

// A page fails by its mean, or by its share of long sentences.
func TestMeasure(t *testing.T) {
	page := func(words ...int) (all []Sentence) {
		for _, n := range words {
			all = append(all, Sentence{Text: strings.Repeat("a ", n)})
		}
		return all
	}
	for _, c := range []struct {
		all  []Sentence
		good bool
	}{
		{page(20), true},
		{page(21), false},
		{page(31, 5), true},
		{page(31, 31, 5, 5, 5, 5), false},
		{page(10, 31, 31, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5), true},
	} {
		if got := measure("page", c.all); (got == "") != c.good {
			t.Errorf("%d sentences: %q", len(c.all), got)
		}
	}
}

const markdown = `# What a page has

It has a [paragraph](link.md), *soft*
wrapped, with ` + "`code that counts once`" + `.

- an item
- another. With two sentences.

| What is a heading | here |
|---|---|
| a cell | is not measured; it is read |

    what is here is not read
`

func TestMarkdown(t *testing.T) {
	want := `page.md:1: What a page has
page.md:3: It has a paragraph, soft wrapped, with ` + "`code that counts once`" + `.
page.md:6: an item
page.md:7: another.
page.md:7: With two sentences.
page.md:9: What is a heading
page.md:9: here
page.md:11: a cell
page.md:11: is not measured; it is read
`
	got := ""
	for _, s := range Markdown("page.md", []byte(markdown)) {
		got += fmt.Sprintln(s)
	}
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

const gocode = `// Package a does this. It
// does that:
//
//	what is here is not read
package a

// b is set by a generator.
// +kubebuilder:what=is
var b = "a string that " + "reads like text"

var c = "short"
`

func TestGo(t *testing.T) {
	comments, texts, err := Go("a.go", []byte(gocode))
	if err != nil {
		t.Fatal(err)
	}
	want := `a.go:1: Package a does this.
a.go:1: It does that:
a.go:7: b is set by a generator.
a.go:9: a string that reads like text
`
	got := ""
	for _, s := range append(comments, texts...) {
		got += fmt.Sprintln(s)
	}
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestMessages(t *testing.T) {
	manifest := "rules:\n- expression: what(x)\n  message: one line\n- message: two lines that\n        continue here\n  reason: Invalid\n"
	got := ""
	for _, s := range Messages("p.yaml", []byte(manifest)) {
		got += fmt.Sprintln(s)
	}
	if want := "p.yaml:3: one line\np.yaml:4: two lines that continue here\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
