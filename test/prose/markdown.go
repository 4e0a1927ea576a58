package prose

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Markdown returns the sentences of a page: of its paragraphs, lists, headings and tables,
// not of its code.
func Markdown(file string, source []byte) []Sentence {
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	var all []Sentence
	// The walk ends with an error only if its function returns one.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node.Kind() {
		case ast.KindParagraph, ast.KindTextBlock, ast.KindHeading, east.KindTableCell:
			if node.Lines().Len() > 0 {
				line := 1 + bytes.Count(source[:node.Lines().At(0).Start], []byte("\n"))
				for _, s := range sentences(file, line, plain(node, source)) {
					s.Heading = node.Kind() == ast.KindHeading || node.Parent().Kind() == east.KindTableHeader
					s.Cell = node.Kind() == east.KindTableCell
					all = append(all, s)
				}
			}
			return ast.WalkSkipChildren, nil
		case ast.KindHTMLBlock, ast.KindFencedCodeBlock, ast.KindCodeBlock:
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
