// Command crdtrim removes the descriptions below chosen properties of a
// CustomResourceDefinition, in place.
//
// A CRD with an embedded PodTemplateSpec is 655 KB long with all descriptions.
// Client-side `kubectl apply` refuses it: it stores the object in an annotation,
// which holds 256 KiB at most. `kubectl explain pod.spec` has the descriptions of
// core/v1. The fields of this project keep theirs.
//
// Usage: crdtrim property[,property...] file...
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crdtrim property[,property...] file...")
		os.Exit(2)
	}
	properties := strings.Split(os.Args[1], ",")
	for _, file := range os.Args[2:] {
		if err := trimFile(file, properties); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func trimFile(file string, properties []string) error {
	in, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(in, &crd); err != nil {
		return err
	}
	trim(crd, properties)
	out, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, out, 0o644)
}

// trim finds schemas with the named properties and strips the descriptions below
// them. The property itself keeps its own description.
func trim(node any, properties []string) {
	switch node := node.(type) {
	case map[string]any:
		if props, ok := node["properties"].(map[string]any); ok {
			for name, schema := range props {
				if s, ok := schema.(map[string]any); ok && slices.Contains(properties, name) {
					strip(s["properties"])
					strip(s["items"])
				}
			}
		}
		for _, child := range node {
			trim(child, properties)
		}
	case []any:
		for _, child := range node {
			trim(child, properties)
		}
	}
}

// strip removes every description that is a string. A property with the name
// "description" is an object and stays.
func strip(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["description"].(string); ok {
			delete(node, "description")
		}
		for _, child := range node {
			strip(child)
		}
	case []any:
		for _, child := range node {
			strip(child)
		}
	}
}
