// Command helmvalues prints the table of a chart's values: the defaults of its
// values.yaml, with the descriptions of its values.schema.json. A value without a
// description is an error.
//
// Usage: helmvalues chart
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: helmvalues chart")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "helmvalues:", err)
		os.Exit(1)
	}
}

func run(chart string) error {
	var root schema
	var values map[string]any
	for name, into := range map[string]any{"values.schema.json": &root, "values.yaml": &values} {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	definitions := root.Definitions
	var print func(path string, of schema, values map[string]any) error
	print = func(path string, of schema, values map[string]any) error {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			s, known := of.Properties[name]
			if definition, shared := definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]; shared {
				s = schema{Description: definition.Description} // a leaf for this table
			}
			if !known || s.Description == "" {
				return fmt.Errorf("%s%s has no description in the schema", path, name)
			}
			if below, ok := values[name].(map[string]any); ok && s.Properties != nil {
				if err := print(path+name+".", s, below); err != nil {
					return err
				}
				continue
			}
			text, err := json.Marshal(values[name])
			if err != nil {
				return err
			}
			fmt.Printf("| `%s%s` | `%s` | %s |\n", path, name, text, s.Description)
		}
		return nil
	}
	for _, group := range slices.Sorted(maps.Keys(values)) {
		s := root.Properties[group]
		below, ok := values[group].(map[string]any)
		if !ok {
			below, s = map[string]any{group: values[group]}, root
			fmt.Printf("## %s\n\n", group)
		} else {
			fmt.Printf("## %s\n\n%s\n\n", group, s.Description)
			group += "."
		}
		fmt.Println("| value | default | meaning |\n|---|---|---|")
		path := ""
		if strings.HasSuffix(group, ".") {
			path = group
		}
		if err := print(path, s, below); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}
