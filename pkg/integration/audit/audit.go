// Package audit compares the requests that the controller made, as the API server
// logged them, with the ones that its roles allow: invariant S11.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Call is one kind of request: "patch pods/status". Namespace and Name tell where,
// for roles that allow it only there.
type Call struct {
	Verb, Group, Resource, Namespace, Name string
}

// Calls reads an audit log and returns the requests of the user agents that begin
// with agent, each once. Requests for what is no resource (discovery) are left out:
// every user may make them.
func Calls(log io.Reader, agent string) (map[Call]bool, error) {
	calls := map[Call]bool{}
	mark := []byte(`"userAgent":"` + agent)
	reader := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !bytes.Contains(line, mark) {
			continue
		}
		var event struct {
			Verb      string
			ObjectRef *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w in %.200s", err, line)
		}
		if ref := event.ObjectRef; ref != nil {
			call := Call{Verb: event.Verb, Group: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
			if ref.Subresource != "" {
				call.Resource += "/" + ref.Subresource
			}
			calls[call] = true
		}
	}
}

// Grant is one verb on one resource that a role allows; an empty Namespace or Name
// is any.
type Grant Call

func (g Grant) String() string {
	text := g.Verb + " " + strings.TrimPrefix(g.Group+"/"+g.Resource, "/")
	if g.Name != "" {
		text += " named " + g.Name
	}
	return text
}

func (g Grant) allows(c Call) bool {
	any := func(granted, called string) bool { return granted == "" || granted == called }
	return g.Verb == c.Verb && g.Group == c.Group && g.Resource == c.Resource && any(g.Namespace, c.Namespace) && any(g.Name, c.Name)
}

// Grants reads those of the ClusterRole and the Roles of that name from a manifest.
func Grants(manifest io.Reader, name string) ([]Grant, error) {
	grants := map[Grant]bool{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same rules
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return slices.SortedFunc(maps.Keys(grants), func(a, b Grant) int { return strings.Compare(a.String(), b.String()) }), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the roles: %w", err)
		}
		if !strings.HasSuffix(role.Kind, "Role") || role.Name != name {
			continue
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, object := range names {
							grants[Grant{verb, group, resource, role.Namespace, object}] = true
						}
					}
				}
			}
		}
	}
}

// Refused are the calls that no grant allows, one a line.
func Refused(calls map[Call]bool, grants []Grant) []string {
	refused := map[string]bool{}
	for call := range calls {
		if !slices.ContainsFunc(grants, func(g Grant) bool { return g.allows(call) }) {
			call.Name = ""
			refused[Grant(call).String()] = true
		}
	}
	return slices.Sorted(maps.Keys(refused))
}

// Unused are the grants that no call made use of. Two kinds of grants are asked
// for by admission and never called: */finalizers, by the plugin
// OwnerReferencesPermissionEnforcement, and bind, by the policies of artifacts/.
func Unused(calls map[Call]bool, grants []Grant) []string {
	var unused []string
	for _, g := range grants {
		if strings.HasSuffix(g.Resource, "/finalizers") || g.Verb == "bind" {
			continue
		}
		used := false
		for call := range calls {
			used = used || g.allows(call)
		}
		if !used {
			unused = append(unused, g.String())
		}
	}
	return unused
}
