package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// subject of a software bill of materials (SBOM): an image, an archive, a manifest or a chart.
type subject struct {
	name, purpose string
	file          string // name of the SBOM, without extension
	purl, sha256  string
}

// part of a subject: a program, and the modules in it.
type part struct {
	name    string
	data    []byte
	modules []module
}

// sbom writes an SPDX document: the subject contains programs, and they contain modules.
func (r *release) sbom(s subject, parts []part) error {
	doc := r.document(s)
	doc.contains(r.version, parts)
	return r.write(s, doc)
}

func (r *release) write(s subject, doc document) error {
	var out bytes.Buffer
	if err := spdxjson.Write(doc.Document, &out, spdxjson.Indent("  ")); err != nil {
		return fmt.Errorf("SBOM of %s: %w", s.file, err)
	}
	return os.WriteFile(filepath.Join(r.out, "sbom", s.file+".spdx.json"), out.Bytes(), 0o644)
}

// document is an SPDX document in progress.
type document struct{ *spdx.Document }

func (d document) relate(a common.ElementID, relation string, b common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: a}, RefB: common.DocElementID{ElementRefID: b}, Relationship: relation,
	})
}

// subjectID is the identifier of the subject in its document.
const subjectID = common.ElementID("Subject")

// document that describes the subject.
func (r *release) document(s subject) document {
	doc := document{&spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      s.file,
		DocumentNamespace: fmt.Sprintf("%s/%s/%s.spdx.json#%s", r.download, r.version, s.file, s.sha256),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "pod2-release-" + r.version}},
			Created:  epoch.Format(time.RFC3339),
		},
	}}
	top := newPackage(s.name, r.version, "Apache-2.0", s.purl)
	top.PrimaryPackagePurpose = s.purpose
	top.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: s.sha256}}
	top.PackageSPDXIdentifier = subjectID
	doc.Packages = append(doc.Packages, top)
	doc.relate("DOCUMENT", common.TypeRelationshipDescribe, subjectID)
	return doc
}

// contains adds programs and their modules.
func (d document) contains(version string, parts []part) {
	has := map[common.ElementID]bool{}
	for _, p := range parts {
		program := newPackage(p.name, version, "Apache-2.0", golang(own, version))
		program.PackageSPDXIdentifier = identifier("Program", p.name)
		program.PrimaryPackagePurpose = "APPLICATION"
		program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sha256.Sum256(p.data))}}
		d.Packages = append(d.Packages, program)
		d.relate(subjectID, common.TypeRelationshipContains, program.PackageSPDXIdentifier)
		for _, m := range p.modules {
			if m.path == own {
				continue // the program itself
			}
			purl := golang(m.path, m.version)
			if m.path == "libbpf" {
				purl = "pkg:github/libbpf/libbpf"
			}
			dependency := newPackage(m.path, m.version, m.license, purl)
			dependency.PackageSPDXIdentifier = identifier("Module", m.path+"-"+m.version)
			dependency.PrimaryPackagePurpose = "LIBRARY"
			if !has[dependency.PackageSPDXIdentifier] {
				has[dependency.PackageSPDXIdentifier] = true
				d.Packages = append(d.Packages, dependency)
			}
			d.relate(program.PackageSPDXIdentifier, common.TypeRelationshipContains, dependency.PackageSPDXIdentifier)
		}
	}
}

func newPackage(name, version, license, purl string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageVersion: version, PackageDownloadLocation: "NOASSERTION", FilesAnalyzed: false,
		PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}},
	}
}

// golang is the package URL of a Go module.
func golang(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + url.QueryEscape(version)
}

var notInIdentifier = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func identifier(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + notInIdentifier.ReplaceAllString(name, "-"))
}
