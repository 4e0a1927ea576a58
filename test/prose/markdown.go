package prose

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Markdown returns the sentences of a page: of its paragraphs, lists and headings, not of
// its tables and code.
func Markdown(file string, source []byte) []Sentence {
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	var all []Sentence
	// The walk ends with an error only if its function returns one.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node.Kind() {
		case ast.KindParagraph, ast.KindTextBlock, ast.KindHeading:
			if node.Lines().Len() > 0 {
				line := 1 + bytes.Count(source[:node.Lines().At(0).Start], []byte("\n"))
				for _, s := range sentences(file, line, plain(node, source)) {
					s.Heading = node.Kind() == ast.KindHeading
					all = append(all, s)
				}
			}
			return ast.WalkSkipChildren, nil
		case ast.KindHTMLBlock, ast.KindFencedCodeBlock, ast.KindCodeBlock:
			return ast.WalkSkipChildren, nil
		}
		if node.Kind().String() == "Table" {
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return all
}

// plain is the text of a block: of a link its words, of code the code in backquotes.
func plain(block ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(block, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := node.(type) {
		case *ast.CodeSpan:
			b.WriteByte('`')
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte('\n')
				}
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
