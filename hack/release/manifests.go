package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// manifest of a release, and its sources in the checkout.
type manifest struct {
	name, description string
	sources           []string
}

var manifests = []manifest{
	{"install.yaml", "addresses only", []string{"crd/*.yaml", "artifacts/*.yaml"}},
	{"install-dataplane.yaml", "addresses, and the data plane of Overlay Networks", []string{"crd/*.yaml", "artifacts/*.yaml", "artifacts/agent/*.yaml"}},
	{"cleanup-dataplane.yaml", "removes the data plane from nodes", []string{"artifacts/agent/cleanup/*.yaml"}},
	{"apiserver.yaml", "the optional aggregated API server", []string{"artifacts/apiserver/*.yaml"}},
}

// manifests with images by digest.
func (r *release) manifests(context.Context) error {
	for _, m := range manifests {
		var all bytes.Buffer
		fmt.Fprintf(&all, "# Pod2 %s: %s. Made by make release.\n", r.version, m.description)
		for _, pattern := range m.sources {
			paths, err := filepath.Glob(filepath.Join(r.root, pattern))
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return fmt.Errorf("%s: no file matches %s", m.name, pattern)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&all, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(string(text), "---\n")))
			}
		}
		text, err := pin(all.String(), r.reference)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, m.name), []byte(text), 0o644); err != nil {
			return err
		}
		if err := r.sbomOfManifest(m.name, "INSTALL", []byte(text), text); err != nil {
			return err
		}
	}
	return nil
}

var imageLine = regexp.MustCompile(`(?m)^([ -]*image: *)(\S+)(.*)$`)

// pin our images. All others must be of a registry, because only we build images.
func pin(text string, reference func(image string) string) (string, error) {
	var unknown []string
	text = imageLine.ReplaceAllStringFunc(text, func(line string) string {
		m := imageLine.FindStringSubmatch(line)
		for _, i := range images {
			if m[2] == i.name+":latest" {
				return m[1] + reference(i.name) + m[3]
			}
		}
		if !strings.Contains(m[2], "/") {
			unknown = append(unknown, m[2])
		}
		return line
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("images %s are not part of the release", strings.Join(unknown, ", "))
	}
	return text, nil
}

// charts packages each Helm chart of the checkout: with the version of the release, and with images by digest.
func (r *release) charts(context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(r.root, "charts/*/Chart.yaml"))
	if err != nil {
		return err
	}
	for _, at := range dirs {
		if err := r.chart(filepath.Dir(at)); err != nil {
			return fmt.Errorf("chart %s: %w", filepath.Base(filepath.Dir(at)), err)
		}
	}
	return nil
}

func (r *release) chart(dir string) error {
	var files []file
	var values string
	chart := filepath.Base(dir)
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(at) // of a link, the file that it names
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		switch filepath.ToSlash(rel) {
		case "Chart.yaml":
			text = versionChart(text, r.version)
		case "values.yaml":
			text = pinValues(text, r.reference)
			values = string(text)
		}
		files = append(files, file{path.Join(chart, filepath.ToSlash(rel)), 0o644, text})
		return nil
	})
	if err != nil {
		return err
	}
	data, err := tarGz(files)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s.tgz", chart, strings.TrimPrefix(r.version, "v"))
	if err := os.WriteFile(filepath.Join(r.out, name), data, 0o644); err != nil {
		return err
	}
	return r.sbomOfManifest(name, "ARCHIVE", data, values)
}

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

func versionChart(text []byte, version string) []byte {
	text = chartVersion.ReplaceAll(text, []byte("version: "+strings.TrimPrefix(version, "v")))
	return appVersion.ReplaceAll(text, []byte("appVersion: "+version))
}

// pinValues sets the image of each component, which is empty in the source.
//
//	controller:
//	  image: ""
func pinValues(text []byte, reference func(image string) string) []byte {
	for _, i := range images {
		component := strings.TrimPrefix(i.name, "pod2-")
		line := regexp.MustCompile(`(?m)^(` + component + `:\n(?:  .*\n)*?  image: )""$`)
		text = line.ReplaceAll(text, []byte("${1}"+reference(i.name)))
	}
	return text
}

func tarGz(files []file) ([]byte, error) {
	data, err := tarOf(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
