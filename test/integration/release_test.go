//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// The manifests of the release name no image without a digest, apart from pause. TestInstallUpgradeUninstallPages applies
// all but that of the aggregated API server, which the API server would accept.
func TestReleasedManifests(t *testing.T) {
	t.Parallel()
	install(t)
	for _, file := range []string{"install.yaml", "install-dataplane.yaml", "cleanup-dataplane.yaml", "apiserver.yaml"} {
		text, err := os.ReadFile(released(file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^[ -]*image: *(\S+)`).FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s has no image", file)
		}
		for _, m := range found {
			if !regexp.MustCompile(`^pod2-[a-z]+@sha256:[0-9a-f]{64}$`).MatchString(m[1]) && m[1] != "registry.k8s.io/pause:3.10" {
				t.Errorf("%s has the image %s", file, m[1])
			}
		}
	}
	if out, err := kubectl("apply", "--dry-run=server", "-f", released("apiserver.yaml")); err != nil {
		t.Errorf("apiserver.yaml: %v\n%s", err, out)
	}
}

// The controller of the image runs with the released roles. Its pod passes Pod Security `restricted`.
//
// Not parallel: it chooses the controller's binary by a variable.
func TestReleasedController(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pod2-controller")
	if err := os.WriteFile(program, fromImage(t, "pod2-controller"), 0o755); err != nil {
		t.Fatal(err)
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "--version").Output(); err != nil || string(out) != "pod2-controller "+string(version) {
		t.Errorf("--version: %q, %v", out, err)
	}
	t.Setenv("POD2_CONTROLLER", program)
	install(t)
	ns := newNamespace(t)
	startController(t, ns, "--kubeconfig", asServiceAccount(t))
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+"---"+fmt.Sprintf(pod2Manifest, "web", ", replicas: 2, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
}

// released is the path of a file of the release that `make local-release` makes.
func released(file string) string { return filepath.Join(root, "bin/dist", file) }

// fromImage follows the digests of the OCI layout down to the program of an image, as a container runtime does.
func fromImage(t *testing.T, image string) []byte {
	t.Helper()
	type descriptor struct {
		Digest      string
		Annotations map[string]string
		Platform    struct{ Architecture, OS string }
	}
	type document struct {
		Manifests []descriptor
		Layers    []descriptor
		Config    descriptor
	}
	decode := func(data []byte) (d document) {
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	top, err := os.ReadFile(released("images/index.json"))
	if err != nil {
		t.Fatalf("run `make local-release` first: %v", err)
	}
	for _, named := range decode(top).Manifests {
		if named.Annotations["io.containerd.image.name"] != "docker.io/library/"+image+"@"+named.Digest {
			continue
		}
		for _, m := range decode(blob(t, named.Digest)).Manifests {
			if m.Platform.OS != "linux" || m.Platform.Architecture != runtime.GOARCH {
				continue
			}
			for _, layer := range decode(blob(t, m.Digest)).Layers {
				unzipped, err := gzip.NewReader(bytes.NewReader(blob(t, layer.Digest)))
				if err != nil {
					t.Fatal(err)
				}
				for r := tar.NewReader(unzipped); ; {
					h, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if h.Name == image {
						program, err := io.ReadAll(r)
						if err != nil {
							t.Fatal(err)
						}
						return program
					}
				}
			}
		}
	}
	t.Fatalf("the release has no image %s for linux/%s with this program", image, runtime.GOARCH)
	return nil
}

// blob of the layout, whose content has its digest.
func blob(t *testing.T, digest string) []byte {
	t.Helper()
	data, err := os.ReadFile(released("images/blobs/" + strings.Replace(digest, ":", "/", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); got != digest {
		t.Fatalf("%s has the digest %s", digest, got)
	}
	return data
}
