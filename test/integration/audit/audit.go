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

// Call is one kind of request, "patch pods/status". Where it goes is left out: a
// test may give a controller a lease of another name and namespace than the Role
// has, and that the Role suffices is for a test with the ServiceAccount to show.
type Call struct {
	Verb, Group, Resource string
}

func (c Call) String() string {
	return c.Verb + " " + strings.TrimPrefix(c.Group+"/"+c.Resource, "/")
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
			ObjectRef *struct{ APIGroup, Resource, Subresource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w in %.200s", err, line)
		}
		if ref := event.ObjectRef; ref != nil {
			call := Call{Verb: event.Verb, Group: ref.APIGroup, Resource: ref.Resource}
			if ref.Subresource != "" {
				call.Resource += "/" + ref.Subresource
			}
			calls[call] = true
		}
	}
}

// Grants reads what the ClusterRole and the Roles of that name in a manifest allow.
func Grants(manifest io.Reader, name string) (map[Call]bool, error) {
	grants := map[Call]bool{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same rules
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return grants, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the roles: %w", err)
		}
		if !strings.HasSuffix(role.Kind, "Role") || role.Name != name {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						grants[Call{verb, group, resource}] = true
					}
				}
			}
		}
	}
}

// Refused are the calls that no role allows, in order.
func Refused(calls, grants map[Call]bool) []string {
	return missing(calls, grants)
}

// Unused is what the roles allow and no call made use of, in order. Two kinds are
// asked for by admission and never called: */finalizers, by the plugin
// OwnerReferencesPermissionEnforcement, and bind, by the policies of artifacts/. That
// these are made use of is for tests with a role that lacks them to show.
func Unused(calls, grants map[Call]bool) []string {
	callable := maps.Clone(grants)
	maps.DeleteFunc(callable, func(c Call, _ bool) bool {
		return strings.HasSuffix(c.Resource, "/finalizers") || c.Verb == "bind"
	})
	return missing(callable, calls)
}

func missing(of, in map[Call]bool) []string {
	var texts []string
	for call := range of {
		if !in[call] {
			texts = append(texts, call.String())
		}
	}
	slices.Sort(texts)
	return texts
}
