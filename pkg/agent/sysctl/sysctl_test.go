//go:build linux

package sysctl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	if got, err := Read("kernel/ostype"); got != "Linux" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Read("net/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a sysctl that does not exist: %v", err)
	}
}

// If the node's directory is mounted, writes use it.
func TestWrite(t *testing.T) {
	mounted := t.TempDir()
	if err := os.Mkdir(filepath.Join(mounted, "ipv4"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write(mounted, "net/ipv4/ip_forward", "1"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(mounted, "ipv4/ip_forward")); string(got) != "1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := write(filepath.Join(mounted, "none"), "net/none", "1"); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without a mount, a sysctl that does not exist: %v", err)
	}
}
