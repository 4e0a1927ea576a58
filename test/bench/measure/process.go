package measure

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a process to measure.
type Process struct {
	procfs.Proc
	cmd *exec.Cmd // nil if Start did not start it
}

// Self is this process.
func Self() *Process { return &Process{Proc: Must(procfs.NewProc(os.Getpid()))} }

// Find the process of a program in this directory or below.
func Find(dir, program string) *Process {
	for _, p := range Must(procfs.AllProcs()) {
		line, err := p.CmdLine()
		if err == nil && len(line) > 0 && strings.HasPrefix(line[0], dir+"/") && filepath.Base(line[0]) == program {
			return &Process{Proc: p}
		}
	}
	Check(fmt.Errorf("there is no process of program %s below %s", program, dir))
	return nil
}

// Start a program, and append its output to a log.
func Start(cmd *exec.Cmd, log string) *Process {
	file := Must(os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	Check(cmd.Start())
	return &Process{Proc: Must(procfs.NewProc(cmd.Process.Pid)), cmd: cmd}
}

// grace is how long a process may take to stop. Some ignore the signal.
const grace = 5 * time.Second

// Stop a process that Start started.
func (p *Process) Stop() {
	if p != nil && p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		process := p.cmd.Process
		kill := time.AfterFunc(grace, func() { _ = process.Kill() })
		_ = p.cmd.Wait()
		kill.Stop()
		p.cmd = nil
	}
}

// Kill a process that Start started. It has no time to end its work.
func (p *Process) Kill() {
	Check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	p.cmd = nil
}

// CPU is the CPU time that the process has used, in user and kernel mode.
func (p *Process) CPU() time.Duration {
	return time.Duration(Must(p.Stat()).CPUTime() * float64(time.Second))
}

// Peak is the maximum of resident memory since the last ResetPeak, in bytes.
func (p *Process) Peak() float64 { return float64(Must(p.NewStatus()).VmHWM) }

// ResetPeak resets the peak, see proc(5).
func (p *Process) ResetPeak() {
	Check(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID), []byte("5"), 0o200))
}

// Busy is the share of the machine's CPU that other programs use.
func Busy() float64 {
	times := func() (idle, all float64) {
		fs := Must(procfs.NewDefaultFS())
		c := Must(fs.Stat()).CPUTotal
		idle = c.Idle + c.Iowait
		return idle, idle + c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal + c.Guest + c.GuestNice
	}
	idle, all := times()
	time.Sleep(2 * time.Second)
	idleLater, allLater := times()
	return 1 - (idleLater-idle)/(allLater-all)
}
