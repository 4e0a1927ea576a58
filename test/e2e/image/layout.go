package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
)

// image is a container image. The first of its files is the entry point.
type image struct {
	name  string // with registry and tag
	user  string // "" is root
	files []file
}

// file is a program in the root of an image.
type file struct {
	name string
	data []byte
}

// The necessary types of the OCI image format, by their names there.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	config struct {
		Architecture string       `json:"architecture"`
		OS           string       `json:"os"`
		Config       runtimeFacts `json:"config"`
		RootFS       rootFS       `json:"rootfs"`
	}
	runtimeFacts struct {
		User       string   `json:"User,omitempty"`
		Entrypoint []string `json:"Entrypoint"`
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	index struct {
		SchemaVersion int          `json:"schemaVersion"`
		Manifests     []descriptor `json:"manifests"`
	}
)

const (
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
	// nameAnnotation holds the name for containerd's import.
	nameAnnotation = "io.containerd.image.name"
)

// write writes an OCI image layout as a tar file. Equal images give equal bytes.
//
//	oci-layout
//	index.json                     names each image's manifest
//	blobs/sha256/<digest>          layers, configurations and manifests
func write(w io.Writer, images []image) error {
	l := layout{tar: tar.NewWriter(w), written: map[string]bool{}}
	idx := index{SchemaVersion: 2}
	for _, i := range images {
		d, err := l.add(i)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		idx.Manifests = append(idx.Manifests, d)
	}
	if err := l.json("index.json", idx); err != nil {
		return err
	}
	if err := l.json("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	return l.tar.Close()
}

type layout struct {
	tar     *tar.Writer
	written map[string]bool // blobs, by digest: images may share them
}

// add writes an image's blobs. It returns the descriptor of its manifest, with its name.
func (l *layout) add(i image) (descriptor, error) {
	layer, err := tarOf(i.files)
	if err != nil {
		return descriptor{}, err
	}
	layerAt, err := l.blob(mediaLayer, layer)
	if err != nil {
		return descriptor{}, err
	}
	configAt, err := l.jsonBlob(mediaConfig, config{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config:       runtimeFacts{User: i.user, Entrypoint: []string{"/" + i.files[0].name}},
		RootFS:       rootFS{Type: "layers", DiffIDs: []string{layerAt.Digest}}, // the same digest, because the layer is not compressed
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.jsonBlob(mediaManifest, manifest{SchemaVersion: 2, MediaType: mediaManifest, Config: configAt, Layers: []descriptor{layerAt}})
	d.Annotations = map[string]string{nameAnnotation: i.name}
	return d, err
}

func (l *layout) jsonBlob(mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, data)
}

func (l *layout) blob(mediaType string, data []byte) (descriptor, error) {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
	if l.written[sum] {
		return d, nil
	}
	l.written[sum] = true
	return d, writeFile(l.tar, "blobs/sha256/"+sum, 0o644, data)
}

func (l *layout) json(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return writeFile(l.tar, name, 0o644, data)
}

func tarOf(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		if err := writeFile(w, f.name, 0o755, f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

func writeFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
