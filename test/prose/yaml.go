package prose

import (
	"regexp"
	"strings"
)

// Hash returns the sentences of comments that begin with a hash and end with the line: of
// YAML, shell scripts and Makefiles. Comments on consecutive lines are one text; an
// indented line, an example, is left out.
func Hash(file string, source []byte) []Sentence {
	var all []Sentence
	var paragraph []string
	begin := 0
	flush := func() {
		all = append(all, sentences(file, begin, strings.Join(paragraph, "\n"))...)
		paragraph = nil
	}
	for i, line := range strings.Split(string(source), "\n") {
		text, is := strings.CutPrefix(strings.TrimSpace(line), "#")
		text, spaced := strings.CutPrefix(text, " ")
		if !is || !spaced || strings.HasPrefix(text, " ") {
			flush()
			continue
		}
		if paragraph == nil {
			begin = i + 1
		}
		paragraph = append(paragraph, text)
	}
	flush()
	return all
}

// message is a string of a policy, an alert or a CRD's rule, with the lines that continue it.
var message = regexp.MustCompile(`(?m)^\s*(?:- )?(?:message|messageExpression|summary|description): (.+(?:\n {8,}[^:\n]*$)*)`)

// Messages returns the sentences that a manifest shows to users.
func Messages(file string, source []byte) []Sentence {
	var all []Sentence
	for _, at := range message.FindAllSubmatchIndex(source, -1) {
		line := 1 + strings.Count(string(source[:at[2]]), "\n")
		all = append(all, sentences(file, line, string(source[at[2]:at[3]]))...)
	}
	return all
}
