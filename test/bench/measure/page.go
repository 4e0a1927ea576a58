package measure

import (
	"os"
	"strings"
	"text/template"
)

// Render is a part of a page, as text/template has it, or all of it if part is "".
func Render(page, part string, data any) string {
	t := template.Must(template.New("").Parse(page))
	var s strings.Builder
	Check(t.ExecuteTemplate(&s, part, data))
	return s.String()
}

// Append text to a file that is there.
func Append(path, text string) {
	file := Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644))
	defer file.Close()
	Must(file.WriteString(text))
}
