//go:build linux

package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client that stops in the middle of its request holds its connection for a limited time.
func TestSlowWriter(t *testing.T) {
	j := &journal{}
	path, refused := start(t, &Server{Handler: j, ReadTimeout: 50 * time.Millisecond})
	got := send(t, path, `{"version":1,"comm`, netnsPath)
	if !strings.HasPrefix(got, `{"version":1,"error":{"code":102,"message":"pod2-agent cannot read the request of pod2-cni: read unix`) || !strings.Contains(got, "i/o timeout") {
		t.Error(got)
	}
	if j.String() != "" || !strings.Contains(refused(), "i/o timeout") {
		t.Errorf("handled %q, refused %q", j, refused())
	}
}

func TestWrongUser(t *testing.T) {
	j := &journal{}
	path, refused := start(t, &Server{Handler: j, UID: os.Geteuid() + 1})
	err := Client{path}.Status(t.Context())
	want := fmt.Sprintf("pod2-agent refuses requests of user %d: pod2-cni must run as user %d", os.Geteuid(), os.Geteuid()+1)
	if err == nil || err.Error() != want || refused() != want || j.String() != "" {
		t.Errorf("got %v, refused %q, handled %q", err, refused(), j)
	}
}

func TestListen(t *testing.T) {
	path := socket(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // as the kubelet makes it
		t.Fatal(err)
	}
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "Srw-------", filepath.Dir(path): "drwx------"} {
		if info, err := os.Stat(name); err != nil || info.Mode().String() != want {
			t.Errorf("%s has mode %v, want %s (%v)", name, info.Mode(), want, err)
		}
	}
	// The next agent starts before the first has ended.
	second, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	unfinished := path + ".next" // of a third agent
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if _, err := os.Stat(unfinished); err != nil {
		t.Error(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = second.Close()
	if err := (Client{path}).Status(t.Context()); !errors.Is(err, ErrAway) || !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
	link := filepath.Join(filepath.Dir(filepath.Dir(path)), "link")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(link, "cni.sock")); err == nil || !strings.Contains(err.Error(), "must be a directory of user") {
		t.Errorf("through a symbolic link: %v", err)
	}
}

// More clients than the limit wait for their turn.
func TestConnectionsAtOnce(t *testing.T) {
	j := &journal{entered: make(chan struct{}), release: make(chan struct{})}
	path, _ := start(t, &Server{Handler: j, Connections: 2})
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			send(t, path, string(encode(t, request{Version: 1, Command: add, Attachment: web})), netnsPath)
		})
	}
	<-j.entered
	<-j.entered
	select {
	case <-j.entered:
		t.Error("a third request ran")
	case <-time.After(50 * time.Millisecond):
	}
	j.release <- struct{}{}
	<-j.entered
	close(j.release)
	running.Wait()
	if n := strings.Count(j.String(), "Add net1"); n != 3 {
		t.Errorf("%d requests ended", n)
	}
}

// A client that hangs up cancels its request, and so does the time limit.
func TestRequestIsCancelled(t *testing.T) {
	for _, limit := range []time.Duration{0, 20 * time.Millisecond} {
		j := &journal{entered: make(chan struct{})}
		path, _ := start(t, &Server{Handler: j, HandleTimeout: limit})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ended := make(chan error)
		go func() {
			f, err := os.Open(netnsPath)
			if err == nil {
				defer f.Close()
				_, err = Client{path}.Add(ctx, web, f)
			}
			ended <- err
		}()
		<-j.entered
		if limit == 0 {
			cancel()
			if err := <-ended; !errors.Is(err, ErrAway) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			for range 500 {
				if j.String() != "" {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		} else if err := <-ended; err == nil || err.Error() != "context deadline exceeded" {
			t.Errorf("got %v", err)
		}
		if j.String() != "Add was cancelled" {
			t.Errorf("handled %q", j)
		}
	}
}

// The time to send a request does not limit the Handler.
func TestSlowHandler(t *testing.T) {
	j := &journal{entered: make(chan struct{}), release: make(chan struct{})}
	path, _ := start(t, &Server{Handler: j, ReadTimeout: time.Second})
	go func() {
		<-j.entered
		time.Sleep(1200 * time.Millisecond)
		close(j.release)
	}()
	answer := send(t, path, string(encode(t, request{Version: 1, Command: add, Attachment: web})), netnsPath)
	if !strings.HasPrefix(answer, `{"version":1,"result":{`) || !strings.HasPrefix(j.String(), "Add net1") {
		t.Errorf("got %s, handled %q", answer, j)
	}
}

// answering is the socket of a server that sends this to its first client.
func answering(t *testing.T, answer string) (path string) {
	t.Helper()
	path = socket(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _, _ = readLine(conn.(*net.UnixConn))
		_, _ = conn.Write([]byte(answer))
		_ = conn.Close()
	}()
	return path
}

// An agent of another version is not away: it has answered.
func TestAgentOfAnotherVersion(t *testing.T) {
	_, err := Client{answering(t, `{"version":2,"error":{"code":11,"message":"later"}}`+"\n")}.Add(t.Context(), web, nil)
	var told *Error
	const want = "pod2-cni uses version 1 of its protocol, and pod2-agent sent version 2: install the pod2-cni of the same release on this node"
	if !errors.As(err, &told) || told.Code != CodeIncompatible || told.Message != want || errors.Is(err, ErrAway) {
		t.Errorf("got %v", err)
	}
}

// A server that is gone, hangs, or answers with something else is away.
func TestAgentIsAway(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"hangs up", "", "it sent no response that pod2-cni can read: EOF"},
		{"ends in the middle", `{"version":1`, "it sent no response that pod2-cni can read: unexpected EOF"},
		{"garbage", "hello\n", "it sent no response that pod2-cni can read: invalid character"},
		{"endless", strings.Repeat(" ", 2*MaxMessage) + `{"version":1,"result":{}}` + "\n", "it sent no response that pod2-cni can read: EOF"},
		{"no result", `{"version":1}` + "\n", "its response has no result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := (Client{answering(t, tt.answer)}).Add(t.Context(), web, nil); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	path := socket(t)
	l, err := Listen(path) // accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := (Client{path}).Status(ctx); !errors.Is(err, ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	many := bytes.Repeat([]byte("a"), MaxMessage)
	if err := (Client{path}).GC(t.Context(), string(many), nil); err == nil || err.Error() != "the request to pod2-agent has 65578 bytes, and the limit is 65536" {
		t.Errorf("got %v", err)
	}
}
