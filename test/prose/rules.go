package prose

import (
	"fmt"
	"regexp"
	"strings"
)

// Bounds of a page, or of the comments of a package.
const (
	meanWords  = 20   // words a sentence, on average
	longWords  = 30   // words of a sentence that is not long
	longShare  = 0.08 // of the sentences may be longer
	alwaysLong = 1    // so many may be longer on a page however short
)

// measure says in which way the sentences of a page are too long, with the long ones.
// Headings and tables are left out.
func measure(page string, all []Sentence) string {
	var long []string
	count, words := 0, 0
	for _, s := range all {
		if s.Heading || s.Cell {
			continue
		}
		n := s.words()
		count++
		words += n
		if n > longWords {
			long = append(long, fmt.Sprintf("  %d words: %s", n, s))
		}
	}
	mean := float64(words) / float64(max(1, count))
	if mean <= meanWords && float64(len(long)) <= max(alwaysLong, longShare*float64(count)) {
		return ""
	}
	return fmt.Sprintf("%s: %d sentences have %.1f words on average (at most %d), and %d have more than %d (at most %.0f %%):\n%s",
		page, count, mean, meanWords, len(long), longWords, 100*longShare, strings.Join(long, "\n"))
}

// rule bans words where plain English has better ones.
type rule struct {
	banned  *regexp.Regexp
	instead string
}

func ban(pattern, instead string) rule {
	return rule{regexp.MustCompile(`(?i)` + pattern), instead}
}

var rules = []rule{
	ban(`\b(?:is|are|was|were|be|been|not|neither|nor) over\b(?: \d| a | an )?`, "terminated, finished, ended"),
	ban(`\bgoes\b`, "name the action: is deleted, terminates, runs"),
	ban(`\bstands?\b`, "exists, is"),
	ban(`\b(?:is|are|was|were|be|been) told\b`, "is reported; the condition says"),
	ban(`\bmend(?:s|ed|ing)?\b`, "fix, repair"),
	ban(`\bbesides\b`, "also, in addition to"),
	ban(`\bbut for\b`, "except"),
	ban(`\bours\b`, "name the owner"),
	ban(`\bforeign\b`, "another owner's; not managed by Pod2"),
	ban(`\b(?:somebody|someone|anybody) else(?:'s)?\b`, "another user, another controller"),
	ban(`\bin vain\b`, "without success"),
	ban(`\bof (?:its|their|that|this) name\b`, "with this name"),
	ban(`\bno way\b`, "cannot"),
	ban(`\bfor want of\b`, "because there is no"),
	ban(`, for (?:it|they|he|she|this|that|there|these|those|then|we|you|a|an|the)\b(?: \w+){0,3} (?:is|are|was|were|has|have|had|does|do|did|can|cannot|may|must|would|will|needs?)\b`, "because"),
	ban(`[,:;] so that\b`, "so"),
	ban(`\bscaled away\b`, "scaled down"),
	ban(`\bas it is\b`, "unchanged; the observed state"),
}

// Who needs a noun before it, and so does what, except in a question.
var (
	personal = regexp.MustCompile(`(?i)(\w+[,)]?) who(?:ever|m|se)?\b`)
	who      = regexp.MustCompile(`(?i)\bwho(?:ever|m)?\b`)
	what     = regexp.MustCompile(`(?i)\bwhat(?:ever)?\b`)
	nouns    = regexp.MustCompile(`(?i)^(?:users?|people|persons?|anyone|everyone|someone|anybody|everybody|somebody|those|readers?|operators?|administrators?|admins?|` +
		`engineers?|developers?|contributors?|maintainers?|reviewers?|teams?|newcomers?|strangers?|tenants?|attackers?|owners?|one|others?|authors?|colleagues?)[,)]?$`)
)

// dense tables are generated, or are for contributors.
var dense = regexp.MustCompile(`^(?:docs/(?:contributing/|performance|reference/api\.md)|hack/|test/)`)

// faults of a sentence, each with the words that are better.
func faults(s Sentence) []string {
	var all []string
	text := quoted.ReplaceAllString(s.Text, "`x`")
	for _, r := range rules {
		if found := r.banned.FindString(text); found != "" {
			all = append(all, fmt.Sprintf("%s\n  %q: better %s", s, found, r.instead))
		}
	}
	if s.Cell && strings.Contains(text, ";") && !dense.MatchString(s.File) {
		all = append(all, fmt.Sprintf("%s\n  a semicolon in a table: make two cells, or write a paragraph", s))
	}
	if strings.HasSuffix(strings.TrimRight(text, `"')`), "?") || s.Heading {
		return all
	}
	if what.MatchString(text) {
		all = append(all, fmt.Sprintf("%s\n  \"what\" without a noun: name the thing", s))
	}
	with := 0
	for _, match := range personal.FindAllStringSubmatch(text, -1) {
		if nouns.MatchString(match[1]) {
			with++
		}
	}
	if len(who.FindAllString(text, -1)) > with {
		all = append(all, fmt.Sprintf("%s\n  \"who\" without a noun: name the person", s))
	}
	return all
}
