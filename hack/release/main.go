// Command release makes a release of Pod2 from the source. `make release` runs it, and
// docs/contributing/release.md describes the result. The same source, version, registry and
// Go give the same bytes.
//
//	release [FLAGS]                                    makes a release
//	release image LAYOUT NAME=FILE[+FILE]...[,USER]... adds images of these files to an OCI layout, for tests
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// epoch is the time of all files, images and documents of a release. A ZIP file cannot have an earlier one.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// options of a release.
type options struct {
	root, version, registry, out, download string
	platforms                              []platform
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 2 && args[0] == "image" {
		return addImages(args[1], args[2:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return produce(ctx, o)
}

var (
	semver     = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	repository = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*$`)
)

func parse(args []string) (*options, error) {
	o := &options{}
	var texts []string
	flags := pflag.NewFlagSet("release", pflag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "The checkout.")
	flags.StringVar(&o.version, "version", "", "The version, such as v0.1.0. Defaults to the file VERSION.")
	flags.StringVar(&o.registry, "registry", "", "The registry to push the images to, such as registry.example.com/pod2. Without it, nothing is pushed.")
	flags.StringVar(&o.out, "out", "dist", "The directory of the result. The program replaces it.")
	flags.StringVar(&o.download, "download", "https://github.com/pod2/pod2/releases/download", "The URL under which you publish the files. The krew manifest uses URL/VERSION/FILE.")
	flags.StringSliceVar(&texts, "platforms", allPlatforms, "Platforms of images and archives, as OS/ARCH. Images are for Linux.")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments %q: there are only flags", flags.Args())
	}
	if o.version == "" {
		text, err := os.ReadFile(filepath.Join(o.root, "VERSION"))
		if err != nil {
			return nil, fmt.Errorf("without --version: %w", err)
		}
		o.version = strings.TrimSpace(string(text))
	}
	if !semver.MatchString(o.version) {
		return nil, fmt.Errorf("--version=%s: must be a semantic version, such as v0.1.0", o.version)
	}
	if o.registry = strings.TrimSuffix(o.registry, "/"); o.registry != "" && !repository.MatchString(o.registry) {
		return nil, fmt.Errorf("--registry=%s: must be a registry with an optional path, such as registry.example.com/pod2", o.registry)
	}
	for _, text := range texts {
		system, arch, ok := strings.Cut(text, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("--platforms=%s: must be OS/ARCH, such as linux/arm64", text)
		}
		o.platforms = append(o.platforms, platform{system, arch})
	}
	return o, nil
}

// produce the release in a new directory beside the result, which it replaces at the end.
func produce(ctx context.Context, o *options) error {
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if err := replaceable(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{options: o, bin: filepath.Join(work, "bin"), out: filepath.Join(work, "dist")}
	for _, dir := range []string{r.bin, filepath.Join(r.out, "sbom")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{
		r.build, r.start, r.collectLicenses, r.images, r.manifests, r.charts, r.archives, r.sums,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(r.out, out); err != nil {
		return err
	}
	fmt.Printf("Pod2 %s is in %s\n", o.version, o.out)
	return nil
}

// replaceable is nil if the directory is absent, empty or an earlier release.
func replaceable(out string) error {
	files, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "images", "oci-layout")); err != nil {
		return fmt.Errorf("--out=%s: this directory is not a release, so it is not replaced", out)
	}
	return nil
}
