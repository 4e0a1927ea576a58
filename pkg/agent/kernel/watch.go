//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Watch calls wake, from its own goroutines, when something of the agent's has changed on
// the node: its links, its nft tables, the files of the directories, or a neighbour or bridge
// entry that is gone. It does not notice changes inside routers, or entries that a user adds:
// a resync finds those. It ends with ctx.
func (k *Kernel) Watch(ctx context.Context, dirs []string, wake func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("open inotify: %w", err)
	}
	files := os.NewFile(uintptr(fd), "inotify")
	route, err := k.subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH)
	if err != nil {
		return errors.Join(err, files.Close())
	}
	nft, err := k.subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		route.Close()
		return errors.Join(err, files.Close())
	}
	context.AfterFunc(ctx, func() {
		route.Close()
		nft.Close()
		_ = files.Close()
	})
	watchDirs(fd, dirs)
	go follow(ctx, route, wake, k.concernsUs)
	go follow(ctx, nft, wake, isOurTable)
	go func() {
		b := make([]byte, 1<<16)
		for {
			_, err := files.Read(b)
			if ctx.Err() != nil {
				return
			}
			watchDirs(fd, dirs) // a directory may be new
			wake()
			pause(ctx, err)
		}
	}()
	return nil
}

// pauseAfter an error, because the next call may return the same error at once.
const pauseAfter = 100 * time.Millisecond

func pause(ctx context.Context, err error) {
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pauseAfter):
	}
}

// subscribe to the kernel's notifications for the node's namespace.
func (k *Kernel) subscribe(protocol int, groups ...uint) (*nl.NetlinkSocket, error) {
	socket, err := nl.SubscribeAt(k.host, netns.None(), protocol, groups...)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for notifications: %w", err)
	}
	if err := socket.SetReceiveBufferSize(1<<20, true); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set up a netlink socket for notifications: %w", err)
	}
	return socket, nil
}

// follow notifications until ctx, and with it the socket, ends. An error wakes too: usually
// it means that notifications were lost.
func follow(ctx context.Context, socket *nl.NetlinkSocket, wake func(), concerns func(syscall.NetlinkMessage) bool) {
	for {
		messages, _, err := socket.Receive()
		if ctx.Err() != nil {
			return
		}
		if err != nil || slices.ContainsFunc(messages, concerns) {
			wake()
		}
		pause(ctx, err)
	}
}

// watchDirs watches the directories that exist, and those in which the others would be
// created. To watch a directory twice has no effect.
func watchDirs(inotify int, dirs []string) {
	const changes = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	for _, dir := range dirs {
		for path, mask := dir, uint32(changes); path != "/" && path != "."; path, mask = filepath.Dir(path), unix.IN_CREATE|unix.IN_MOVED_TO {
			if _, err := unix.InotifyAddWatch(inotify, path, mask|unix.IN_MASK_ADD); err == nil {
				break
			}
		}
	}
}

func (k *Kernel) concernsUs(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_DELNEIGH:
		n, err := netlink.NeighDeserialize(m.Data)
		return err != nil || k.ours.has(n.LinkIndex)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, err := netlink.LinkDeserialize(nil, m.Data)
		return err != nil || k.ours.has(l.Attrs().Index) || k.ours.has(l.Attrs().MasterIndex) || dataplane.OwnLink(l.Attrs().Name) != 0
	}
	return false
}

// isOurTable: the first attribute in messages of tables, chains, rules, sets and elements is
// the name of the table.
func isOurTable(m syscall.NetlinkMessage) bool {
	const first = 1 // NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, ...
	const head = 4  // struct nfgenmsg
	return m.Header.Type&0xff != unix.NFT_MSG_NEWGEN && len(m.Data) > head && string(attribute(m.Data[head:], first)) == dataplane.TableName+"\x00"
}
