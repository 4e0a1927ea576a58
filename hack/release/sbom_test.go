package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// The SBOM of a manifest or a chart is a valid SPDX document with its sum, and names the images
// that it installs: those of the release by the digests in images.txt.
func TestSBOMsOfManifests(t *testing.T) {
	r := newRelease(t, "")
	if err := errors.Join(r.images(t.Context()), r.manifests(t.Context()), r.charts(t.Context())); err != nil {
		t.Fatal(err)
	}
	controller, agent, apiserver := "pod2-controller v0.2.0 Apache-2.0 DIGEST of pod2-controller", "pod2-agent v0.2.0 Apache-2.0 DIGEST of pod2-agent", "pod2-apiserver v0.2.0 Apache-2.0 DIGEST of pod2-apiserver"
	pause := "pause 3.10 NOASSERTION pkg:oci/pause?repository_url=registry.k8s.io/pause&tag=3.10"
	for file, want := range map[string][]string{
		"install.yaml":           {controller},
		"install-dataplane.yaml": {agent, controller},
		"cleanup-dataplane.yaml": {agent, pause},
		"apiserver.yaml":         {apiserver},
		"pod2-0.2.0.tgz":         {agent, apiserver, controller, pause},
		"pod2-crds-0.2.0.tgz":    nil,
	} {
		t.Run(file, func(t *testing.T) {
			doc := readSBOM(t, filepath.Join(r.out, "sbom", file+".spdx.json"))
			data, err := os.ReadFile(filepath.Join(r.out, file))
			if err != nil {
				t.Fatal(err)
			}
			top := doc.Packages[0]
			if sum := fmt.Sprintf("%x", sha256.Sum256(data)); top.PackageName != file || top.PackageChecksums[0].Value != sum {
				t.Errorf("it describes %s with %v, want %s", top.PackageName, top.PackageChecksums, sum)
			}
			var got []string
			for _, p := range doc.Packages[1:] {
				purl := p.PackageExternalReferences[0].Locator
				if len(p.PackageChecksums) > 0 {
					purl = "DIGEST of " + imageOf(t, r, p)
				}
				got = append(got, fmt.Sprintf("%s %s %s %s", p.PackageName, p.PackageVersion, p.PackageLicenseDeclared, purl))
			}
			if got, want := strings.Join(got, "\n"), strings.Join(want, "\n"); got != want {
				t.Errorf("it names\n%s\nwant\n%s", got, want)
			}
			for _, rel := range doc.Relationships[1:] {
				if rel.RefA.ElementRefID != subjectID || rel.Relationship != common.TypeRelationshipDependsOn {
					t.Errorf("it says that %s %s %s", rel.RefA.ElementRefID, rel.Relationship, rel.RefB.ElementRefID)
				}
			}
		})
	}
}

// imageOf finds the image with the package's checksum. The package URL has the same digest.
func imageOf(t *testing.T, r *release, p *spdx.Package) string {
	t.Helper()
	digest := "sha256:" + p.PackageChecksums[0].Value
	for name, d := range r.digests {
		if d == digest && p.PackageExternalReferences[0].Locator == "pkg:oci/"+name+"@"+strings.Replace(digest, ":", "%3A", 1) {
			return name
		}
	}
	return "no image: " + p.PackageExternalReferences[0].Locator
}

func readSBOM(t *testing.T, file string) *spdx.Document {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc := &spdx.Document{}
	if err := spdxjson.ReadInto(bytes.NewReader(content), doc); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	return doc
}

func TestOCIURL(t *testing.T) {
	for reference, want := range map[string]string{
		"pod2-agent@sha256:0":             "pkg:oci/pod2-agent@sha256%3A0",
		"r.example.com/p/agent@sha256:0":  "pkg:oci/agent@sha256%3A0?repository_url=r.example.com/p/agent",
		"r.example.com:5000/agent:v1":     "pkg:oci/agent?repository_url=r.example.com:5000/agent&tag=v1",
		"registry.k8s.io/pause:3.10":      "pkg:oci/pause?repository_url=registry.k8s.io/pause&tag=3.10",
		"r.example.com:5000/a/b@sha256:1": "pkg:oci/b@sha256%3A1?repository_url=r.example.com:5000/a/b",
	} {
		if got := ociURL(reference); got != want {
			t.Errorf("%s: got %s, want %s", reference, got, want)
		}
	}
}
