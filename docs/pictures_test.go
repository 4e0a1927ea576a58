package docs

import (
	"os/exec"
	"testing"
)

// The picture of the terminal is drawn from the text that hack/terminal.sh recorded.
func TestTerminalIsDrawnFromItsText(t *testing.T) {
	draw := exec.Command("hack/terminal.sh", "draw")
	draw.Dir = ".."
	want, err := draw.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := readText(t, "pictures/terminal.svg"); got != string(want) {
		t.Error("docs/pictures/terminal.svg differs from docs/pictures/terminal.txt: run hack/terminal.sh draw >docs/pictures/terminal.svg")
	}
}
