package main

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
)

// sbomOfManifest writes the SBOM of a manifest or a chart: the images that its text names, which
// are the only software that it installs. Each of our images has SBOMs of its own.
func (r *release) sbomOfManifest(file, purpose string, data []byte, text string) error {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	s := subject{file, purpose, file, "pkg:generic/" + url.PathEscape(file) + "@" + r.version + "?checksum=sha256:" + sum, sum}
	doc := r.document(s)
	for _, reference := range references(text) {
		at, digest, _ := strings.Cut(reference, "@sha256:")
		name, tag, _ := strings.Cut(path.Base(at), ":")
		version, license := tag, "NOASSERTION"
		if r.isOurs(reference) {
			version, license = r.version, "Apache-2.0"
		}
		image := newPackage(name, version, license, ociURL(reference))
		image.PackageSPDXIdentifier = identifier("Image", reference)
		image.PrimaryPackagePurpose = "CONTAINER"
		if digest != "" {
			image.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
		}
		doc.Packages = append(doc.Packages, image)
		doc.relate(subjectID, common.TypeRelationshipDependsOn, image.PackageSPDXIdentifier)
	}
	return r.write(s, doc)
}

func (r *release) isOurs(reference string) bool {
	return slices.ContainsFunc(images, func(i image) bool { return r.reference(i.name) == reference })
}

// imageValue matches a container's image in a manifest, and an image in the values of a chart.
var imageValue = regexp.MustCompile(`(?m)^[ -]*(?:image|pause): *([^\s"'#]+)`)

// references of all images in a text, each once.
func references(text string) (all []string) {
	for _, m := range imageValue.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ociURL is the package URL of an image. Only one in a registry has a repository.
//
//	pod2-agent@sha256:0          pkg:oci/pod2-agent@sha256%3A0
//	registry.k8s.io/pause:3.10   pkg:oci/pause?repository_url=registry.k8s.io/pause&tag=3.10
func ociURL(reference string) string {
	at, digest, _ := strings.Cut(reference, "@")
	repository, tag := at, ""
	if colon := strings.LastIndex(at, ":"); colon > strings.LastIndex(at, "/") {
		repository, tag = at[:colon], at[colon+1:]
	}
	purl := "pkg:oci/" + path.Base(repository)
	if digest != "" {
		purl += "@" + url.QueryEscape(digest)
	}
	var qualifiers []string
	if strings.Contains(repository, "/") {
		qualifiers = append(qualifiers, "repository_url="+repository)
	}
	if tag != "" {
		qualifiers = append(qualifiers, "tag="+tag)
	}
	return strings.TrimSuffix(purl+"?"+strings.Join(qualifiers, "&"), "?")
}
