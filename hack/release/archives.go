package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const plugin = "kubectl-pod2"

// krew's manifest of a plugin: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type (
	krewPlugin struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       krewSpec          `json:"spec"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
)

// archives of the plugin, with an SBOM for each, and the manifest for krew.
func (r *release) archives(context.Context) error {
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "pod2"},
		Spec: krewSpec{
			Version: r.version, Homepage: "https://" + own,
			ShortDescription: "Manage Pod2s and the addresses of Networks",
			Description: "Shows the addresses of Networks and the rollouts of Pod2s.\n" +
				"Plans changes, and pauses, resumes and undoes rollouts. Needs Pod2 in the cluster.\n",
		},
	}
	for _, p := range r.platforms {
		b := binary{plugin, p}
		data, err := os.ReadFile(r.path(b))
		if err != nil {
			return err
		}
		files := []file{{filepath.Base(r.path(b)), 0o755, data}}
		if p.os != "windows" { // a shell script
			completion, err := os.ReadFile(filepath.Join(r.root, "hack/kubectl_complete-pod2"))
			if err != nil {
				return err
			}
			files = append(files, file{"kubectl_complete-pod2", 0o755, completion})
		}
		license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
		if err != nil {
			return err
		}
		files = append(append(files, file{"LICENSE", 0o644, license}), r.licenses[b].files...)
		base := fmt.Sprintf("%s_%s_%s_%s", plugin, r.version, p.os, p.arch)
		pack, extension := tarGz, ".tar.gz"
		if p.os == "windows" {
			pack, extension = zipOf, ".zip"
		}
		archive, err := pack(files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, base+extension), archive, 0o644); err != nil {
			return err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(archive))
		if err := r.sbom(subject{plugin, "ARCHIVE", base, golang(own, r.version) + "#cmd/" + plugin, sum}, []part{{plugin, data, r.licenses[b].modules}}); err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.os, "arch": p.arch}},
			URI:      fmt.Sprintf("%s/%s/%s%s", r.download, r.version, base, extension), SHA256: sum, Bin: files[0].path,
		})
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "krew.yaml"), text, 0o644)
}

func zipOf(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: epoch}
		header.SetMode(fs.FileMode(f.mode))
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// sums of all files but the images, which are named by their digests.
func (r *release) sums(context.Context) error {
	var list strings.Builder
	err := filepath.WalkDir(r.out, func(at string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.out, at)
		if err != nil || entry.IsDir() {
			if rel == "images" {
				return fs.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(at)
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(list.String()), 0o644)
}
