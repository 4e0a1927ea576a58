package prose

import "strings"

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
