package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image of a release. The first program is the entry point.
type image struct {
	name, user, description string
	programs                []string
}

// nobody is the user of images whose manifests require one that is not root.
const nobody = "65532:65532"

var images = []image{
	{"pod2-controller", nobody, "The controller of Pod2", []string{"pod2-controller"}},
	{"pod2-agent", "0:0", "The agent of Pod2 for nodes, and its CNI plugin", []string{"pod2-agent", "pod2-cni"}},
	{"pod2-apiserver", nobody, "The optional aggregated API server of Pod2", []string{"pod2-apiserver"}},
}

// reference of an image, by digest if it has one.
func (r *release) reference(image string) string {
	return strings.TrimPrefix(r.registry+"/"+image, "/") + "@" + r.digests[image]
}

// images for all platforms, from an empty base. They are written to an OCI layout, and pushed if there is a registry.
func (r *release) images(ctx context.Context) error {
	at, err := layout.Write(filepath.Join(r.out, "images"), empty.Index)
	if err != nil {
		return err
	}
	r.digests = map[string]string{}
	var list strings.Builder
	for _, i := range images {
		index, err := r.index(i)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		r.digests[i.name] = digest.String()
		tag := strings.TrimPrefix(r.registry+"/"+i.name, "/") + ":" + r.version
		for _, reference := range []string{tag, r.reference(i.name)} {
			if err := at.AppendIndex(index, layout.WithAnnotations(named(reference))); err != nil {
				return err
			}
		}
		if r.registry != "" {
			to, err := name.NewTag(tag)
			if err != nil {
				return err
			}
			if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return fmt.Errorf("push %s: %w", tag, err)
			}
			fmt.Printf("Pushed %s\n", tag)
		}
		fmt.Fprintln(&list, r.reference(i.name))
	}
	return os.WriteFile(filepath.Join(r.out, "images.txt"), []byte(list.String()), 0o644)
}

// index of an image for each platform, with an SBOM for each.
func (r *release) index(i image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.linux() {
		var files []file
		var parts []part
		seen := map[string]bool{}
		for _, g := range i.programs {
			b := binary{g, p}
			data, err := os.ReadFile(r.path(b))
			if err != nil {
				return nil, err
			}
			files = append(files, file{g, 0o755, data})
			parts = append(parts, part{g, data, r.licenses[b].modules})
			for _, f := range r.licenses[b].files {
				if !seen[f.path] {
					seen[f.path] = true
					files = append(files, f)
				}
			}
		}
		img, err := newImage(p, i.user, files, map[string]string{
			"org.opencontainers.image.title":       i.name,
			"org.opencontainers.image.description": i.description,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://" + own,
		})
		if err != nil {
			return nil, err
		}
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		purl := fmt.Sprintf("pkg:oci/%s@%s?arch=%s", i.name, strings.ReplaceAll(digest.String(), ":", "%3A"), p.arch)
		if err := r.sbom(subject{i.name, "CONTAINER", fmt.Sprintf("%s_%s_%s_%s", i.name, r.version, p.os, p.arch), purl, digest.Hex}, parts); err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	return index, nil
}

// newImage with these files in its root, from an empty base. The first is the entry point.
func newImage(p platform, user string, files []file, labels map[string]string) (v1.Image, error) {
	data, err := tarOf(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: epoch}
	config.Config = v1.Config{User: user, Entrypoint: []string{"/" + files[0].path}, WorkingDir: "/", Labels: labels}
	return mutate.ConfigFile(img, config)
}

// tarOf files and their directories. All belong to root.
func tarOf(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	made := map[string]bool{}
	for _, f := range files {
		parents := strings.Split(f.path, "/")
		for n := 1; n < len(parents); n++ {
			dir := strings.Join(parents[:n], "/") + "/"
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: epoch}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: epoch}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

// addImages of files to a layout, for this machine's architecture. For tests.
func addImages(dir string, args []string) error {
	at, err := layout.FromPath(dir)
	if err != nil {
		return err
	}
	for _, arg := range args {
		reference, rest, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q: must be NAME=FILE[+FILE]...[,USER]", arg)
		}
		paths, user, _ := strings.Cut(rest, ",")
		var files []file
		for path := range strings.SplitSeq(paths, "+") {
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("image %s: %w", reference, err)
			}
			files = append(files, file{filepath.Base(path), 0o755, data})
		}
		img, err := newImage(platform{"linux", runtime.GOARCH}, user, files, nil)
		if err != nil {
			return fmt.Errorf("image %s: %w", reference, err)
		}
		if err := at.AppendImage(img, layout.WithAnnotations(named(reference))); err != nil {
			return err
		}
	}
	return nil
}

// named are the annotations of an image in a layout: its full name, by which containerd imports it, and that of the OCI.
func named(reference string) map[string]string {
	return map[string]string{"io.containerd.image.name": canonical(reference), "org.opencontainers.image.ref.name": canonical(reference)}
}

// canonical is the name that a kubelet uses for an image. A first component with a dot or a
// colon is a registry.
//
//	pause:e2e                    docker.io/library/pause:e2e
//	registry.k8s.io/pause:3.10   registry.k8s.io/pause:3.10
func canonical(reference string) string {
	registry, _, ok := strings.Cut(reference, "/")
	switch {
	case ok && strings.ContainsAny(registry, ".:"):
		return reference
	case ok:
		return "docker.io/" + reference
	default:
		return "docker.io/library/" + reference
	}
}
