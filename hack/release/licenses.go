package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenses of a binary: its modules, and the license files of the packages in it.
type licenses struct {
	modules []module
	files   []file
}

// module in a binary.
type module struct {
	path, version string
	license       string // an SPDX expression, or NOASSERTION
}

// file has a slash-separated path in an image or archive.
type file struct {
	path string
	mode int64
	data []byte
}

var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense|copyright)([-._].*)?$`)

// own is the path of our module, whose license is that of the checkout.
const own = "github.com/pod2/pod2"

// collectLicenses of all binaries. A module without a license file fails the release.
func (r *release) collectLicenses(ctx context.Context) error {
	r.licenses = map[binary]licenses{}
	for _, p := range r.platforms {
		for _, g := range of(p) {
			out, err := r.golang(ctx, p, g.module, "list", "-mod=readonly", "-deps", "-json=Dir,Standard,Module", g.pkg)
			if err != nil {
				return err
			}
			version, err := r.golang(ctx, p, g.module, "env", "GOVERSION", "GOROOT")
			if err != nil {
				return err
			}
			toolchain, root, _ := strings.Cut(strings.TrimSpace(string(version)), "\n")
			packages, err := decodePackages(out)
			if err != nil {
				return err
			}
			l, err := gather(packages, r.root, pkgModule{Path: "std", Version: strings.TrimPrefix(toolchain, "go"), Dir: root})
			if err != nil {
				return fmt.Errorf("%s for %s: %w", g.name, p, err)
			}
			if g.name == "pod2-agent" { // its eBPF programs contain inline functions of headers
				text, err := os.ReadFile(filepath.Join(r.root, "pkg/agent/bpf/src/LICENSE.libbpf"))
				if err != nil {
					return err
				}
				l.files = append(l.files, file{"licenses/libbpf/LICENSE.BSD-2-Clause", 0o644, text})
				l.modules = append(l.modules, module{"libbpf", "", "BSD-2-Clause"})
			}
			r.licenses[binary{g.name, p}] = l
		}
	}
	return nil
}

// pkg is a package as `go list` prints it.
type pkg struct {
	Dir      string
	Standard bool
	Module   *pkgModule
}

type pkgModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *pkgModule
}

func decodePackages(data []byte) (all []pkg, err error) {
	for d := json.NewDecoder(strings.NewReader(string(data))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		all = append(all, p)
	}
}

// gather the license files in the directory of each package and in its parents, up to the module. A directory with a copy
// of other code has a license of its own.
func gather(packages []pkg, root string, std pkgModule) (licenses, error) {
	modules, files := map[string]module{}, map[string]file{}
	for _, p := range packages {
		m := p.Module
		switch {
		case p.Standard:
			m = &std
		case m == nil:
			return licenses{}, fmt.Errorf("package in %s: it has no module", p.Dir)
		case m.Path == own || strings.HasPrefix(m.Path, own+"/"):
			m = &pkgModule{Path: own, Dir: root}
		case m.Replace != nil:
			m = &pkgModule{Path: m.Replace.Path, Version: m.Replace.Version, Dir: m.Dir}
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			found, err := licensesIn(dir)
			if err != nil {
				return licenses{}, err
			}
			for name, text := range found {
				rel, err := filepath.Rel(m.Dir, filepath.Join(dir, name))
				if err != nil {
					return licenses{}, err
				}
				at := path.Join("licenses", strings.TrimSuffix(m.Path+"@"+m.Version, "@"), filepath.ToSlash(rel))
				files[at] = file{at, 0o644, text}
			}
			if len(dir) <= len(m.Dir) {
				break
			}
		}
		if _, ok := modules[m.Path]; !ok {
			found, err := licensesIn(m.Dir)
			if err != nil {
				return licenses{}, err
			}
			if len(found) == 0 {
				return licenses{}, fmt.Errorf("module %s %s has no license file", m.Path, m.Version)
			}
			modules[m.Path] = module{m.Path, m.Version, identify(found)}
		}
	}
	l := licenses{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		l.modules = append(l.modules, modules[name])
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		l.files = append(l.files, files[name])
	}
	return l, nil
}

func licensesIn(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, e := range entries {
		if !isLicense.MatchString(e.Name()) || !isRegular(filepath.Join(dir, e.Name())) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		if found[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.FileMode(0)
}

// identify the licenses of a module, which all apply. An unknown text makes it NOASSERTION.
func identify(texts map[string][]byte) string {
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "notice") || strings.HasPrefix(lower, "patents") || strings.HasPrefix(lower, "copyright") {
			continue
		}
		coverage := licensecheck.Scan(texts[name])
		if coverage.Percent < 75 {
			return "NOASSERTION"
		}
		for _, m := range coverage.Match {
			if !m.IsURL {
				names[m.ID] = true
			}
		}
	}
	if len(names) == 0 {
		return "NOASSERTION"
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), " AND ")
}
