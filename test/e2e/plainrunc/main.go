// Command plainrunc runs instead of runc on the nodes of the end-to-end tests. It removes the
// seccomp profile from a container's configuration, and then executes the runc in its own
// directory.
//
// A kubelet asks for the runtime's default profile for every pod's sandbox. runc accepts it
// only if it was built with libseccomp, a C library that no Go module has. So containers of
// these tests have no seccomp filter. No test here depends on one.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plainrunc:", err)
		os.Exit(1)
	}
}

// run returns only if it fails.
func run() error {
	// runc [global flags] create --bundle DIR ... ID
	if i := slices.Index(os.Args, "--bundle"); i > 0 && i+1 < len(os.Args) {
		if err := withoutSeccomp(filepath.Join(os.Args[i+1], "config.json")); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find runc: %w", err)
	}
	runc := filepath.Join(filepath.Dir(self), "runc")
	if err := syscall.Exec(runc, append([]string{runc}, os.Args[1:]...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", runc, err)
	}
	return nil
}

// withoutSeccomp removes the profile, and leaves the rest of the file unchanged.
func withoutSeccomp(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the container's configuration: %w", err)
	}
	data, err = removeSeccomp(data)
	if err != nil {
		return fmt.Errorf("read the container's configuration %s: %w", file, err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write the container's configuration: %w", err)
	}
	return nil
}

func removeSeccomp(config []byte) ([]byte, error) {
	var all, linux map[string]json.RawMessage
	if err := json.Unmarshal(config, &all); err != nil {
		return nil, err
	}
	if all["linux"] == nil {
		return config, nil
	}
	if err := json.Unmarshal(all["linux"], &linux); err != nil {
		return nil, err
	}
	delete(linux, "seccomp")
	var err error
	if all["linux"], err = json.Marshal(linux); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
