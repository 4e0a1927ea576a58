//go:build linux

package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

// Watch calls wake, from goroutines of its own, when something of ours has changed on
// the node: its links and what is gone of neighbours and entries of bridges, nft tables,
// and files of the directories. What happens within routers it does not notice, nor what
// is added to ours by hand; that is for a resync. It ends with ctx.
func (k *Kernel) Watch(ctx context.Context, dirs []string, wake func()) error {
	var sockets []int
	err := k.in("", func() error {
		for _, s := range []struct {
			protocol int
			groups   []int
		}{
			{unix.NETLINK_ROUTE, []int{unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH}},
			{unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES}},
		} {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, s.protocol)
			if err != nil {
				return fmt.Errorf("open a netlink socket to watch with: %w", err)
			}
			sockets = append(sockets, fd)
			err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			for _, group := range s.groups {
				err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
			}
			if err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<20)); err != nil {
				return fmt.Errorf("set up a netlink socket to watch with: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		for _, fd := range sockets {
			_ = unix.Close(fd)
		}
		return err
	}
	inotify, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		for _, fd := range sockets {
			_ = unix.Close(fd)
		}
		return fmt.Errorf("open inotify: %w", err)
	}
	route, nft, files := os.NewFile(uintptr(sockets[0]), "rtnetlink"), os.NewFile(uintptr(sockets[1]), "nfnetlink"), os.NewFile(uintptr(inotify), "inotify")
	context.AfterFunc(ctx, func() {
		for _, f := range []*os.File{route, nft, files} {
			_ = f.Close()
		}
	})
	watchDirs(inotify, dirs)
	go follow(route, wake, k.concernsUs)
	go follow(nft, wake, isOurTable)
	go follow(files, wake, func([]byte) bool {
		watchDirs(inotify, dirs) // one of them may have been made only now
		return true
	})
	return nil
}

// follow until the file is closed. An error, of which the usual one is that notifications
// were lost, is a reason to look, too.
func follow(f *os.File, wake func(), concerns func([]byte) bool) {
	b := make([]byte, 1<<16)
	for {
		n, err := f.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || concerns(b[:n]) {
			wake()
		}
	}
}

// watchDirs that are there, and those in which the others would be made. To watch one
// twice is to watch it once.
func watchDirs(inotify int, dirs []string) {
	const changes = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	for _, dir := range dirs {
		for path, mask := dir, uint32(changes); path != "/" && path != "."; path, mask = parentOf(path), unix.IN_CREATE|unix.IN_MOVED_TO {
			if _, err := unix.InotifyAddWatch(inotify, path, mask|unix.IN_MASK_ADD); err == nil {
				break
			}
		}
	}
}

func parentOf(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return "/"
}

func (k *Kernel) concernsUs(b []byte) bool {
	for m := range messages(b) {
		switch m.kind {
		case unix.RTM_DELNEIGH:
			if len(m.body) >= unix.SizeofNdMsg && k.ours.has(native.Uint32(m.body[4:])) {
				return true
			}
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			if len(m.body) < unix.SizeofIfInfomsg {
				continue
			}
			if k.ours.has(native.Uint32(m.body[4:])) {
				return true
			}
			for kind, v := range attributes(m.body[unix.SizeofIfInfomsg:]) {
				if kind == unix.IFLA_IFNAME && dataplane.OwnLink(text(v)) != 0 || kind == unix.IFLA_MASTER && k.ours.has(native.Uint32(v)) {
					return true
				}
			}
		}
	}
	return false
}

// isOurTable: in messages of tables, chains, rules, sets and elements the first attribute
// is the name of the table.
func isOurTable(b []byte) bool {
	const first = 1 // NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, ...
	for m := range messages(b) {
		if m.kind&0xff == unix.NFT_MSG_NEWGEN || len(m.body) < 4 {
			continue
		}
		for kind, v := range attributes(m.body[4:]) {
			if kind == first && bytes.Equal(v, []byte(dataplane.TableName+"\x00")) {
				return true
			}
		}
	}
	return false
}
