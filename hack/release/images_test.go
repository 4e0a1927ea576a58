package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// newRelease with small files in place of the programs.
func newRelease(t *testing.T, registry string) *release {
	t.Helper()
	dir := t.TempDir()
	r := &release{options: &options{root: "../..", version: "v0.2.0", registry: registry, download: "https://example.com/d"}, bin: filepath.Join(dir, "bin"), out: filepath.Join(dir, "dist"), licenses: map[binary]licenses{}}
	if err := os.MkdirAll(filepath.Join(r.out, "sbom"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range allPlatforms {
		system, arch, _ := strings.Cut(text, "/")
		p := platform{system, arch}
		r.platforms = append(r.platforms, p)
		for _, g := range of(p) {
			b := binary{g.name, p}
			r.licenses[b] = licenses{
				[]module{{"example.com/a", "v1.0.0", "MIT"}, {own, "", "Apache-2.0"}, {"std", "1.26.0", "BSD-3-Clause"}},
				[]file{{"licenses/example.com/a@v1.0.0/LICENSE", 0o644, []byte("MIT")}},
			}
			if err := os.MkdirAll(filepath.Dir(r.path(b)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.path(b), []byte(g.name+" "+text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// The images in the layout and in a registry are the same: for two architectures, with the user, the programs and the
// licenses, and nothing else.
func TestImages(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	r := newRelease(t, host+"/pod2")
	if err := r.images(t.Context()); err != nil {
		t.Fatal(err)
	}
	local, err := layout.ImageIndexFromPath(filepath.Join(r.out, "images"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(local); err != nil {
		t.Errorf("the layout: %v", err)
	}
	top, err := local.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, d := range top.Manifests {
		reference := strings.Replace(d.Annotations["io.containerd.image.name"], host, "HOST", 1)
		if strings.Contains(reference, "@") {
			if reference != "HOST/pod2/"+strings.Split(strings.Split(reference, "/")[2], "@")[0]+"@"+d.Digest.String() {
				t.Errorf("%s names %s", reference, d.Digest)
			}
			continue
		}
		tag, err := name.NewTag(d.Annotations["io.containerd.image.name"])
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(tag)
		if err != nil {
			t.Fatal(err)
		}
		if pushed, err := index.Digest(); err != nil || pushed != d.Digest {
			t.Errorf("%s in the registry is %s (%v), in the layout %s", tag, pushed, err, d.Digest)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifest.Manifests {
			img, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			layers, err := img.Layers()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "%s %s %s/%s user %s runs %v of %d layer:", reference, m.Platform, config.OS, config.Architecture, config.Config.User, config.Config.Entrypoint, len(layers))
			for _, l := range layers {
				content, err := l.Uncompressed()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range untar(t, content) {
					fmt.Fprintf(&got, " %s", f)
				}
			}
			fmt.Fprintln(&got)
		}
	}
	license := "licenses/ 755 licenses/example.com/ 755 licenses/example.com/a@v1.0.0/ 755 licenses/example.com/a@v1.0.0/LICENSE 644 \"MIT\""
	want := strings.NewReplacer("LICENSE", license).Replace(`HOST/pod2/pod2-controller:v0.2.0 linux/amd64 linux/amd64 user 65532:65532 runs [/pod2-controller] of 1 layer: pod2-controller 755 "pod2-controller linux/amd64" LICENSE
HOST/pod2/pod2-controller:v0.2.0 linux/arm64 linux/arm64 user 65532:65532 runs [/pod2-controller] of 1 layer: pod2-controller 755 "pod2-controller linux/arm64" LICENSE
HOST/pod2/pod2-agent:v0.2.0 linux/amd64 linux/amd64 user 0:0 runs [/pod2-agent] of 1 layer: pod2-agent 755 "pod2-agent linux/amd64" LICENSE pod2-cni 755 "pod2-cni linux/amd64"
HOST/pod2/pod2-agent:v0.2.0 linux/arm64 linux/arm64 user 0:0 runs [/pod2-agent] of 1 layer: pod2-agent 755 "pod2-agent linux/arm64" LICENSE pod2-cni 755 "pod2-cni linux/arm64"
HOST/pod2/pod2-apiserver:v0.2.0 linux/amd64 linux/amd64 user 65532:65532 runs [/pod2-apiserver] of 1 layer: pod2-apiserver 755 "pod2-apiserver linux/amd64" LICENSE
HOST/pod2/pod2-apiserver:v0.2.0 linux/arm64 linux/arm64 user 65532:65532 runs [/pod2-apiserver] of 1 layer: pod2-apiserver 755 "pod2-apiserver linux/arm64" LICENSE
`)
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// untar prints each file with its mode and content. All have the same time and owner.
func untar(t *testing.T, content io.Reader) (files []string) {
	t.Helper()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(epoch) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s is of %s, user %d and group %d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		line := fmt.Sprintf("%s %o", h.Name, h.Mode)
		if h.Typeflag == tar.TypeReg {
			line += fmt.Sprintf(" %q", text)
		}
		files = append(files, line)
	}
}

// addImages adds images of the tests to the layout.
func TestAddImages(t *testing.T) {
	r := newRelease(t, "")
	if err := r.images(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.out, "images")
	program := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(program, []byte("probe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"image", dir, "probe:e2e=" + program + ",1:1", "registry.k8s.io/pause:3.10=" + program}); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range manifest.Manifests {
		names = append(names, d.Annotations["io.containerd.image.name"])
	}
	if got, want := strings.Join(names, " "), "docker.io/library/pod2-controller:v0.2.0 docker.io/library/"+r.reference("pod2-controller")+
		" docker.io/library/pod2-agent:v0.2.0 docker.io/library/"+r.reference("pod2-agent")+
		" docker.io/library/pod2-apiserver:v0.2.0 docker.io/library/"+r.reference("pod2-apiserver")+" docker.io/library/probe:e2e registry.k8s.io/pause:3.10"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"pause:e2e", "docker.io/library/pause:e2e"},
		{"pod2/controller:1", "docker.io/pod2/controller:1"},
		{"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"},
		{"localhost:5000/a/b:1", "localhost:5000/a/b:1"},
	} {
		if got := canonical(c.name); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
