package prose

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// Go returns the sentences of a file's comments, and its strings that read like text. A
// comment's code and directives are left out.
func Go(file string, source []byte) (comments, texts []Sentence, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	for _, group := range parsed.Comments {
		comments = append(comments, ofComment(file, set.Position(group.Pos()).Line, group)...)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			// A tag is no text.
			if n.Tag != nil {
				n.Tag = nil
			}
		case ast.Expr:
			if value, ok := joined(n); ok {
				if readable(value) {
					line := set.Position(n.Pos()).Line
					for paragraph := range strings.SplitSeq(value, "\n") {
						texts = append(texts, sentences(file, line, paragraph)...)
					}
				}
				return false
			}
		}
		return true
	})
	return comments, texts, nil
}

func ofComment(file string, line int, group *ast.CommentGroup) []Sentence {
	var all []Sentence
	var add func(blocks []comment.Block)
	add = func(blocks []comment.Block) {
		for _, block := range blocks {
			switch b := block.(type) {
			case *comment.Paragraph:
				all = append(all, sentences(file, line, inline(b.Text))...)
			case *comment.Heading:
				all = append(all, sentences(file, line, inline(b.Text))...)
			case *comment.List:
				for _, item := range b.Items {
					add(item.Content)
				}
			}
		}
	}
	var text []string
	for l := range strings.SplitSeq(group.Text(), "\n") {
		if !strings.HasPrefix(l, "+") { // a marker of the generators
			text = append(text, l)
		}
	}
	var p comment.Parser
	add(p.Parse(strings.Join(text, "\n")).Content)
	return all
}

func inline(parts []comment.Text) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case comment.Plain:
			b.WriteString(string(p))
		case comment.Italic:
			b.WriteString(string(p))
		case *comment.Link:
			b.WriteString("`link`")
		case *comment.DocLink:
			b.WriteString("`" + inline(p.Text) + "`")
		}
	}
	return b.String()
}

// joined is the value of a string, or of strings added to one.
func joined(e ast.Expr) (string, bool) {
	switch n := e.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			value, err := strconv.Unquote(n.Value)
			return value, err == nil
		}
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return "", false
		}
		left, ok := joined(n.X)
		right, also := joined(n.Y)
		return left + right, ok && also
	}
	return "", false
}

var (
	lower    = regexp.MustCompile(`(?:^|\s)[a-z]{2,},?(?:\s|$)`)
	manifest = regexp.MustCompile(`(?m)^\s*(?:apiVersion|kind|rules):`)
)

// readable is a string of at least four words that is no manifest. Code in other languages
// is read like text: it has none of the banned words.
func readable(value string) bool {
	return len(strings.Fields(value)) >= 4 && len(lower.FindAllString(value, -1)) >= 2 && !manifest.MatchString(value)
}
