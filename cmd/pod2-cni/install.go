//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pod2/pod2/internal/version"
	"github.com/pod2/pod2/pkg/agent/cni"
)

// plugin is the name of the binary in the directory of plugins. It is the type in configurations.
const plugin = "pod2-cni"

const usage = "usage: pod2-cni install --to DIR | pod2-cni uninstall --from DIR"

// command of a container of the DaemonSet.
func command(args []string) error {
	flags := flag.NewFlagSet(plugin, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var dir string
	switch args[0] {
	case "--version":
		fmt.Println(plugin, version.String())
		return nil
	case "install":
		flags.StringVar(&dir, "to", "", "")
	case "uninstall":
		flags.StringVar(&dir, "from", "", "")
	default:
		return fmt.Errorf("unknown command %q: %s", args[0], usage)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w: %s", err, usage)
	}
	if dir == "" || flags.NArg() > 0 {
		return errors.New(usage)
	}
	if args[0] == "install" {
		return install(dir)
	}
	return uninstall(dir)
}

// install this binary. The file appears under its name only when it is complete and on the disk, so
// the runtime never runs a part of it, and can run it while it is replaced.
func install(dir string) error {
	if err := removeUnfinished(dir); err != nil {
		return err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("open this binary: %w", err)
	}
	defer self.Close()
	next, err := os.CreateTemp(dir, "."+plugin+"-")
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	_, err = io.Copy(next, self)
	err = errors.Join(err, next.Chmod(0o755), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), filepath.Join(dir, plugin))
	}
	if err != nil {
		return fmt.Errorf("install: %w", errors.Join(err, os.Remove(next.Name())))
	}
	return syncDir(dir)
}

// removeUnfinished files of an installation that was killed.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the directory of CNI plugins: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+plugin+"-") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove an unfinished installation: %w", err)
			}
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("the directory of CNI plugins: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("the directory of CNI plugins: %w", err)
	}
	return nil
}

// uninstall removes the binary, unless pods need it for their DEL.
func uninstall(dir string) error {
	users, err := inUse()
	if err != nil {
		return err
	}
	if len(users) > 0 {
		shown := users[:min(10, len(users))]
		more := ""
		if len(users) > len(shown) {
			more = ", and more"
		}
		return fmt.Errorf("pods of this node use the plugin: delete or move them first: %s%s", strings.Join(shown, ", "), more)
	}
	if err := removeUnfinished(dir); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, plugin)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return syncDir(dir)
}

// inUse names the interfaces that the agent made for pods of this node. They exist while the agent is away, too.
func inUse() ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of the node: %w", err)
	}
	var users []string
	for _, i := range interfaces {
		if cni.IsHostInterface(i.Name) {
			user := "interface " + i.Name
			// The owner as package veth stores it, with the name of the pod, unless this container does not show it.
			if alias, err := os.ReadFile(filepath.Join("/sys/class/net", i.Name, "ifalias")); err == nil && len(alias) > 1 {
				user += " (" + strings.TrimSpace(string(alias)) + ")"
			}
			users = append(users, user)
		}
	}
	return users, nil
}
