// Package prose measures the English of this project: of its pages, its comments and the
// strings that users read.
package prose

import (
	"fmt"
	"regexp"
	"strings"
)

// Sentence is one sentence, and where it begins. An item of a list, a heading and a cell
// of a table end their sentence, with or without a period.
type Sentence struct {
	File    string
	Line    int
	Text    string
	Heading bool
	Cell    bool
}

func (s Sentence) String() string { return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Text) }

// words are counted as a reader counts them: `kubectl get pods` in backquotes is one.
func (s Sentence) words() int {
	count := 0
	for _, field := range strings.Fields(quoted.ReplaceAllString(s.Text, "`x`")) {
		if wordy.MatchString(field) {
			count++
		}
	}
	return count
}

var (
	quoted = regexp.MustCompile("`[^`]*`")
	wordy  = regexp.MustCompile(`[\pL\pN]`)
	// A period ends a sentence if a new one begins after it: `main.go` and "e.g." do not.
	end = regexp.MustCompile(`[.!?]["')\]]*\s+["'(\[` + "`" + `]*(?:\p{Lu}|` + "`" + `)`)
)

// sentences splits a paragraph that begins at a line.
func sentences(file string, line int, paragraph string) []Sentence {
	var all []Sentence
	for paragraph != "" {
		rest := ""
		text := paragraph
		if at := end.FindStringIndex(paragraph); at != nil {
			cut := at[0] + strings.IndexFunc(paragraph[at[0]:], isSpace)
			text, rest = paragraph[:cut], paragraph[cut:]
		}
		if trimmed := strings.Join(strings.Fields(text), " "); trimmed != "" {
			begins := line + strings.Count(text[:len(text)-len(strings.TrimLeftFunc(text, isSpace))], "\n")
			all = append(all, Sentence{File: file, Line: begins, Text: trimmed})
		}
		line += strings.Count(text, "\n")
		paragraph = rest
	}
	return all
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\n", r) }
