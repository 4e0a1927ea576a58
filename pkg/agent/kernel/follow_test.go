//go:build linux

package kernel

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func subscribed(t *testing.T) *nl.NetlinkSocket {
	t.Helper()
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

func nothing(syscall.NetlinkMessage) bool { return false }

// A socket that always fails is read only ten times a second.
func TestFollowPauses(t *testing.T) {
	socket := subscribed(t)
	socket.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer stop()
		wakes := 0
		follow(ctx, socket, func() { wakes++ }, nothing)
		if wakes != 10 {
			t.Errorf("woke up %d times", wakes)
		}
	})
}

// It ends with its context, without another wake.
func TestFollowEnds(t *testing.T) {
	socket := subscribed(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		follow(ctx, socket, func() { t.Error("woke up") }, nothing)
		close(ended)
	}()
	stop()
	socket.Close()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}
