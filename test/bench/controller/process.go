package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that is measured.
type process struct {
	cmd            *exec.Cmd // nil: not started here
	pid            int
	metricsURL     string
	started, ready time.Time
}

// processOf finds the program that the local cluster in this directory runs.
func processOf(dir, program string) (*process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		command, _, _ := bytes.Cut(line, []byte{0})
		if strings.HasPrefix(string(command), dir+"/") && filepath.Base(string(command)) == program {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return &process{pid: pid}, err
		}
	}
	return nil, fmt.Errorf("no process runs %s from below %s", program, dir)
}

func (p *process) stop() {
	if p == nil || p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// ticksPerSecond is USER_HZ, which Linux has on every architecture of Go's.
const ticksPerSecond = 100

// cpu is the time it has computed, in user and kernel mode: proc(5), stat 14 and 15.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read what the process computed: %w", err)
	}
	// The name, in parentheses, may have spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", p.pid, stat)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}

// peak is the most memory that was resident since resetPeak, in bytes.
func (p *process) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of the process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/%d/status", p.pid)
}

func (p *process) resetPeak() error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0o200); err != nil {
		return fmt.Errorf("reset the peak of memory: %w", err)
	}
	return nil
}

// live is the heap that a garbage collection, which this asks for, finds in use, in bytes.
func (p *process) live(ctx context.Context) (float64, error) {
	if _, err := p.profile(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return 0, fmt.Errorf("have the controller collect garbage: %w", err)
	}
	m, err := scrape(ctx, p.metricsURL)
	return m.sum("go_gc_heap_live_bytes", nil), err
}
