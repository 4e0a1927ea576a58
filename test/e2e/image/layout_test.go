package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// The test has its own reader. It follows the digests from index.json down to the file, as
// containerd does, and prints the content.
func TestLayout(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, []image{
		{name: "docker.io/library/a:1", user: "65532:65532", files: []file{{"a", []byte("one")}, {"b", []byte("two")}}},
		{name: "docker.io/library/b:1", files: []file{{"a", []byte("one")}, {"b", []byte("two")}}},
	}); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
docker.io/library/a:1 runs [/a] as "65532:65532": a 755 "one", b 755 "two"
docker.io/library/b:1 runs [/a] as "": a 755 "one", b 755 "two"
7 files`, "\n")
	if got := render(t, out.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// render prints the images and the number of files: 2 manifests, 2 configurations, 1 layer
// that both images share, index.json and oci-layout.
func render(t *testing.T, data []byte) string {
	t.Helper()
	files := untar(t, data)
	var idx index
	decode(t, files["index.json"], &idx)
	var lines []string
	for _, d := range idx.Manifests {
		var m manifest
		decode(t, blob(t, files, d), &m)
		var c config
		decode(t, blob(t, files, m.Config), &c)
		if got, want := strings.Join(c.RootFS.DiffIDs, " "), m.Layers[0].Digest; got != want {
			t.Errorf("diff_ids %s, want %s", got, want)
		}
		var has []string
		for layer := tar.NewReader(strings.NewReader(blob(t, files, m.Layers[0]))); ; {
			header, err := layer.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(layer)
			if err != nil {
				t.Fatal(err)
			}
			has = append(has, fmt.Sprintf("%s %o %q", header.Name, header.Mode, content))
		}
		lines = append(lines, fmt.Sprintf("%s runs %v as %q: %s", d.Annotations[nameAnnotation], c.Config.Entrypoint, c.Config.User, strings.Join(has, ", ")))
	}
	return strings.Join(append(lines, fmt.Sprintf("%d files", len(files))), "\n")
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// blob returns the content of a descriptor, and checks its size and its digest.
func blob(t *testing.T, files map[string]string, d descriptor) string {
	t.Helper()
	content := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))); sum != d.Digest || len(content) != d.Size {
		t.Fatalf("%s of %d bytes has digest %s and %d bytes", d.Digest, d.Size, sum, len(content))
	}
	return content
}

func decode(t *testing.T, data string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatal(err)
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
