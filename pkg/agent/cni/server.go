//go:build linux

package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Handler fulfils the requests. Its calls are concurrent, also for one attachment. The
// context ends when the client hangs up; the descriptor is valid until the call returns. An error
// that is not an *Error has CodeInternal.
type Handler interface {
	// Add attaches a pod. It returns once the pod's port is programmed. It succeeds again for
	// an attachment that exists.
	Add(ctx context.Context, a Attachment, netns *os.File) (Result, error)
	// Del removes an attachment. It succeeds if there is none. The pod may be unknown.
	Del(ctx context.Context, a Attachment) error
	// Check compares an attachment with its pod, and returns the result that Add would return.
	Check(ctx context.Context, a Attachment, netns *os.File) (Result, error)
	// Status returns an error if Add would fail now.
	Status(ctx context.Context) error
	// GC removes the attachments to the network that are not in the list.
	GC(ctx context.Context, network string, valid []ID) error
}

// Server answers requests.
type Server struct {
	Handler Handler
	// UID that clients must have: 0 on a node.
	UID int
	// Refused is called with the reason for each request that does not reach the Handler.
	Refused func(error)
	// Connections is the limit of requests at once; 0 means 64. Others wait.
	Connections int
	// ReadTimeout is the time that a client has to send its request, and then to take its
	// response; 0 means 5 seconds.
	ReadTimeout time.Duration
	// HandleTimeout is the time that the Handler has; 0 means 30 seconds.
	HandleTimeout time.Duration
}

// Serve until ctx ends. It returns when all requests have ended.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, orDefault(s.Connections, 64))
	for {
		slots <- struct{}{}
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept connections of pod2-cni: %w", err)
		}
		if err != nil { // such as a lack of descriptors, until running requests have closed theirs
			<-slots
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			if err := s.serve(ctx, conn); err != nil && s.Refused != nil {
				s.Refused(err)
			}
		})
	}
}

func orDefault[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// serve one connection. It returns the reason if it refused the request.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) error {
	limit := orDefault(s.ReadTimeout, 5*time.Second)
	_ = conn.SetDeadline(time.Now().Add(limit))
	r, netns, refused := s.receive(conn)
	answer := response{Error: refused}
	if refused == nil {
		if netns != nil {
			defer netns.Close()
		}
		_ = conn.SetDeadline(time.Time{})
		ctx, cancel := context.WithTimeout(ctx, orDefault(s.HandleTimeout, 30*time.Second))
		defer cancel()
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // until the client hangs up, or conn is closed
			cancel()
		}()
		if hungUp(conn) { // while it waited for a slot: the runtime may undo the request already
			return nil
		}
		answer = s.handle(ctx, r, netns)
	}
	answer.Version = Version
	line, err := json.Marshal(answer)
	if err == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(limit))
		_, err = conn.Write(append(line, '\n'))
	}
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return fmt.Errorf("send the response to %s for pod %s: %w", r.Command, r.Pod, err)
	}
	return nil
}

// receive a request and its descriptor from a client that may send one.
func (s *Server) receive(conn *net.UnixConn) (request, *os.File, *Error) {
	uid, err := peer(conn)
	if err != nil {
		return request{}, nil, Errorf(CodeInternal, "pod2-agent cannot read the user of pod2-cni: %v", err)
	}
	if uid != s.UID {
		return request{}, nil, Errorf(CodeRefused, "pod2-agent refuses requests of user %d: pod2-cni must run as user %d", uid, s.UID)
	}
	line, files, err := readLine(conn)
	var r request
	var told *Error
	var netns *os.File
	if err != nil {
		told = Errorf(CodeInvalid, "pod2-agent cannot read the request of pod2-cni: %v", err)
	} else if r, told = decodeRequest(line); told == nil {
		netns, told = r.namespace(files)
	}
	for _, f := range files {
		if f != netns {
			_ = f.Close()
		}
	}
	return r, netns, told
}

// namespace returns the descriptor of the pod's network namespace.
func (r request) namespace(files []*os.File) (*os.File, *Error) {
	switch {
	case !r.needsNamespace() && len(files) == 0:
		return nil, nil
	case !r.needsNamespace():
		return nil, Errorf(CodeInvalid, "%s has %d descriptors, and needs none", r.Command, len(files))
	case len(files) != 1:
		return nil, Errorf(CodeInvalid, "%s has %d descriptors: it needs one, the pod's network namespace", r.Command, len(files))
	}
	var stat unix.Statfs_t
	fd := int(files[0].Fd())
	if err := unix.Fstatfs(fd, &stat); err != nil || stat.Type != unix.NSFS_MAGIC {
		return nil, Errorf(CodeInvalid, "the descriptor of %s is not a namespace", r.Command)
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return nil, Errorf(CodeInvalid, "the descriptor of %s is a namespace, but not a network namespace", r.Command)
	}
	return files[0], nil
}

// hungUp says whether the client has closed the connection.
func hungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil
	})
	return gone || err != nil
}

func (s *Server) handle(ctx context.Context, r request, netns *os.File) response {
	var answer response
	var result Result
	var err error
	switch r.Command {
	case add:
		result, err = s.Handler.Add(ctx, r.Attachment, netns)
		answer.Result = &result
	case check:
		result, err = s.Handler.Check(ctx, r.Attachment, netns)
		answer.Result = &result
	case del:
		err = s.Handler.Del(ctx, r.Attachment)
	case status:
		err = s.Handler.Status(ctx)
	case gc:
		err = s.Handler.GC(ctx, r.Network, r.Valid)
	}
	if err == nil {
		return answer
	}
	var told *Error
	if !errors.As(err, &told) {
		told = Errorf(CodeInternal, "%s", err)
	}
	return response{Error: told}
}

// peer returns the user of the process that connected.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var readErr error
	if err := raw.Control(func(fd uintptr) {
		credentials, readErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if readErr != nil {
		return 0, readErr
	}
	return int(credentials.Uid), nil
}

// maxFiles is the limit of descriptors in a request: two. A request with two gets an error that says which it needs.
const maxFiles = 2

// readLine reads up to the first newline. It returns all descriptors that came with it.
func readLine(conn *net.UnixConn) ([]byte, []*os.File, error) {
	var files []*os.File
	line := make([]byte, 0, 4096)
	chunk, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, rightsN, flags, _, err := conn.ReadMsgUnix(chunk, rights)
		files = append(files, received(rights[:rightsN])...)
		switch {
		case err != nil:
			return nil, files, err
		case n == 0:
			return nil, files, io.ErrUnexpectedEOF
		case flags&unix.MSG_CTRUNC != 0 || len(files) > maxFiles:
			return nil, files, errors.New("it has too many descriptors")
		}
		line = append(line, chunk[:n]...)
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			if end < len(line)-1 {
				return nil, files, errors.New("something follows the first line")
			}
			return line, files, nil
		}
		if len(line) >= MaxMessage {
			return nil, files, fmt.Errorf("it exceeds %d bytes", MaxMessage)
		}
	}
}

// received are the descriptors in control messages. The process now has them, so an error must not
// hide any.
func received(control []byte) []*os.File {
	var files []*os.File
	messages, _ := unix.ParseSocketControlMessage(control)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "descriptor of pod2-cni"))
		}
	}
	return files
}
