//go:build linux && kernel

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain is also the process that TestCapabilities runs. It drops capabilities as the agent
// does, and prints those of each of its threads and of a program that it runs.
func TestMain(m *testing.M) {
	if os.Getenv("POD2_DROP_CAPABILITIES") == "" {
		os.Exit(m.Run())
	}
	// The second call has only those that the DaemonSet lists, and not the one to drop others.
	if err := errors.Join(dropCapabilities(), dropCapabilities()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
		}
		_, _ = os.Stdout.Write(status)
	}
	run := exec.Command("cat", "/proc/self/status")
	run.Stdout = os.Stdout
	if err := run.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The agent keeps NET_ADMIN (bit 12) and SYS_ADMIN (21) on every thread. A program that it
// runs has no more, although it is root.
func TestCapabilities(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(self)
	run.Env = append(os.Environ(), "POD2_DROP_CAPABILITIES=1")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var lines []string
	threads := 0
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if strings.HasPrefix(line, "CapEff") {
			threads++
		}
	}
	slices.Sort(lines)
	if got, want := strings.Join(slices.Compact(lines), "\n"), `CapAmb: 0000000000000000
CapBnd: 0000000000201000
CapEff: 0000000000201000
CapInh: 0000000000000000
CapPrm: 0000000000201000
NoNewPrivs: 1`; got != want || threads < 3 {
		t.Errorf("%d threads have\n%s\nwant\n%s", threads, got, want)
	}
}
