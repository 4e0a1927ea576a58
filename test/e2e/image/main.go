// Command image writes container images into one tar file for `ctr images import`. Each has
// static binaries, as in hack/Dockerfile. It needs neither a registry nor Docker.
//
//	image OUT NAME=FILE[+FILE]...[,USER]...
//	image images.tar pod2-controller:latest=bin/pod2-controller,65532:65532 pod2-agent:latest=bin/pod2-agent+bin/pod2-cni
//
// The binaries are the only files, and the first is the entry point: /pod2-controller. USER
// defaults to root.
// A NAME without a registry means the same as in a pod:
// docker.io/library/pod2-controller:latest.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: image OUT NAME=FILE[+FILE]...[,USER]...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(out string, args []string) error {
	var images []image
	for _, arg := range args {
		i, err := load(arg)
		if err != nil {
			return err
		}
		images = append(images, i)
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := write(file, images); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return file.Close()
}

func load(arg string) (image, error) {
	name, rest, ok := strings.Cut(arg, "=")
	if !ok {
		return image{}, fmt.Errorf("%q: must be NAME=FILE[+FILE]...[,USER]", arg)
	}
	paths, user, _ := strings.Cut(rest, ",")
	i := image{name: canonical(name), user: user}
	for path := range strings.SplitSeq(paths, "+") {
		data, err := os.ReadFile(path)
		if err != nil {
			return image{}, fmt.Errorf("image %s: %w", name, err)
		}
		i.files = append(i.files, file{filepath.Base(path), data})
	}
	return i, nil
}

// canonical is the name that a kubelet uses for an image. A first component with a dot or a
// colon is a registry.
//
//	pause:e2e                    docker.io/library/pause:e2e
//	registry.k8s.io/pause:3.10   registry.k8s.io/pause:3.10
func canonical(name string) string {
	registry, _, ok := strings.Cut(name, "/")
	switch {
	case ok && strings.ContainsAny(registry, ".:"):
		return name
	case ok:
		return "docker.io/" + name
	default:
		return "docker.io/library/" + name
	}
}
