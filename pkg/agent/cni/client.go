//go:build linux

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAway means that no response came: the agent is not running, or it hangs.
var ErrAway = errors.New("pod2-agent does not answer")

// Client sends requests to the agent. It is a Handler. Its calls need a deadline.
type Client struct {
	// Socket is the path of the agent's socket.
	Socket string
}

// Add attaches a pod.
func (c Client) Add(ctx context.Context, a Attachment, netns *os.File) (Result, error) {
	return c.result(ctx, add, a, netns)
}

// Check compares an attachment with its pod, and returns the result that Add would return.
func (c Client) Check(ctx context.Context, a Attachment, netns *os.File) (Result, error) {
	return c.result(ctx, check, a, netns)
}

// Del removes an attachment.
func (c Client) Del(ctx context.Context, a Attachment) error {
	_, err := c.call(ctx, request{Command: del, Attachment: a}, nil)
	return err
}

// Status returns an error if Add would fail now.
func (c Client) Status(ctx context.Context) error {
	_, err := c.call(ctx, request{Command: status}, nil)
	return err
}

// GC removes the attachments to the network that are not in the list.
func (c Client) GC(ctx context.Context, network string, valid []ID) error {
	_, err := c.call(ctx, request{Command: gc, Attachment: Attachment{Network: network}, Valid: valid}, nil)
	return err
}

func (c Client) result(ctx context.Context, command string, a Attachment, netns *os.File) (Result, error) {
	r, err := c.call(ctx, request{Command: command, Attachment: a}, netns)
	if err == nil && r.Result == nil {
		err = fmt.Errorf("%w: its response has no result", ErrAway)
	}
	if err != nil {
		return Result{}, err
	}
	return *r.Result, nil
}

func (c Client) call(ctx context.Context, r request, netns *os.File) (response, error) {
	r.Version = Version
	line, err := json.Marshal(r)
	if err != nil {
		return response{}, fmt.Errorf("write a request: %w", err)
	}
	line = append(line, '\n')
	if len(line) > MaxMessage {
		return response{}, Errorf(CodeInvalid, "the request to pod2-agent has %d bytes, and the limit is %d", len(line), MaxMessage)
	}
	got, err := c.exchange(ctx, line, netns)
	switch {
	case err != nil:
		return response{}, fmt.Errorf("%w on %s: %w", ErrAway, c.Socket, err)
	case got.Version != Version:
		return response{}, Errorf(CodeIncompatible, "pod2-cni uses version %d of its protocol, and pod2-agent sent version %d: install the pod2-cni of the same release on this node", Version, got.Version)
	case got.Error != nil:
		return response{}, got.Error
	}
	return got, nil
}

func (c Client) exchange(ctx context.Context, line []byte, netns *os.File) (response, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return response{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var rights []byte
	if netns != nil {
		rights = unix.UnixRights(int(netns.Fd()))
	}
	n, _, err := conn.(*net.UnixConn).WriteMsgUnix(line, rights, nil)
	if err == nil && n < len(line) {
		_, err = conn.Write(line[n:])
	}
	// An agent that refuses early has answered, although it did not read all of the request.
	var r response
	readErr := json.NewDecoder(io.LimitReader(conn, MaxMessage)).Decode(&r)
	switch {
	case readErr == nil:
		return r, nil
	case ctx.Err() != nil:
		return response{}, ctx.Err()
	}
	return response{}, errors.Join(err, fmt.Errorf("it sent no response that pod2-cni can read: %w", readErr))
}
