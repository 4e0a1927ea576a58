package measure

import (
	"os"
	"strings"
	"text/template"
)

// Render executes one part of a page's text/template, or the whole page if part is "".
func Render(page, part string, data any) string {
	t := template.Must(template.New("").Parse(page))
	var s strings.Builder
	Check(t.ExecuteTemplate(&s, part, data))
	return s.String()
}

// Append text to an existing file.
func Append(path, text string) {
	file := Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644))
	defer file.Close()
	Must(file.WriteString(text))
}
