// Package crd has the CustomResourceDefinitions.
package crd

import _ "embed"

// Pod2 is the CustomResourceDefinition of Pod2s, in YAML.
//
//go:embed samplecrd.k8s.io_pod2s.yaml
var Pod2 []byte
