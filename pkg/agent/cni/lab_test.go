//go:build linux

package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// journal is a Handler that records its calls.
type journal struct {
	mu    sync.Mutex
	calls []string
	err   error
	// entered gets a value at each call of Add, which then waits for release or its context.
	entered, release chan struct{}
}

func (j *journal) add(call string, netns *os.File) error {
	if netns != nil {
		var stat unix.Stat_t
		if err := unix.Fstat(int(netns.Fd()), &stat); err != nil {
			return err
		}
		if name, _ := os.Readlink("/proc/self/ns/net"); name == fmt.Sprintf("net:[%d]", stat.Ino) {
			call += " with this network namespace"
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, call)
	return j.err
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.calls, "\n")
}

func (a Attachment) text() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s of %s on %s %v %s", a.Interface, a.ContainerID, a.Pod, a.Network, a.IPs, a.MAC))
}

func (j *journal) Add(ctx context.Context, a Attachment, netns *os.File) (Result, error) {
	if j.entered != nil {
		j.entered <- struct{}{}
		select {
		case <-j.release:
		case <-ctx.Done():
			return Result{}, errors.Join(j.add("Add was cancelled", nil), ctx.Err())
		}
	}
	return sample, j.add("Add "+a.text(), netns)
}

func (j *journal) Check(_ context.Context, a Attachment, netns *os.File) (Result, error) {
	return sample, j.add("Check "+a.text(), netns)
}
func (j *journal) Del(_ context.Context, a Attachment) error { return j.add("Del "+a.text(), nil) }
func (j *journal) Status(context.Context) error              { return j.add("Status", nil) }
func (j *journal) GC(_ context.Context, network string, valid []ID) error {
	return j.add(fmt.Sprintf("GC %s %v", network, valid), nil)
}

var (
	web = Attachment{ID: ID{"5b0c", "net1"}, Network: "default.blue", Pod: Pod{"default", "web-0", "8f31"},
		IPs: []netip.Prefix{netip.MustParsePrefix("192.168.0.2/16")}, MAC: "0a:58:c0:a8:00:02"}
	sample = Result{HostInterface: web.HostInterface(), MAC: "0a:58:c0:a8:00:02", MTU: 1450, Address: netip.MustParsePrefix("192.168.0.2/16"),
		Gateway: netip.MustParseAddr("192.168.0.1"), Routes: []Route{{Destination: netip.MustParsePrefix("192.168.0.0/15")}}}
)

// socket has a short path: a socket's is limited to 107 bytes.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cni")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "agent", "cni.sock")
}

// start a server for this user. refused returns the reasons that it gave.
func start(t *testing.T, s *Server) (path string, refused func() string) {
	t.Helper()
	path = socket(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var reasons []string
	s.Refused = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reasons = append(reasons, err.Error())
	}
	if s.UID == 0 {
		s.UID = os.Geteuid()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return path, func() string {
		stop()
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(reasons, "\n")
	}
}

// send bytes with descriptors, and return the response.
func send(t *testing.T, path, line string, files ...string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var fds []int
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// A server that refuses early closes the connection before it has read everything.
	_, _, _ = conn.(*net.UnixConn).WriteMsgUnix([]byte(line), rights, nil)
	answer, _ := io.ReadAll(conn)
	return strings.TrimSpace(string(answer))
}

const netnsPath = "/proc/self/ns/net"
