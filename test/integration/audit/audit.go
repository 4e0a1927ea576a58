// Package audit compares the controller's requests in the API server's audit log with the
// requests that its roles allow: invariant S11.
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

// Call is a kind of request, "patch pods/status". It has no object name and no namespace,
// because a test may run the controller with another lease than the one in the Role. A test
// with the ServiceAccount shows that the Role suffices.
type Call struct {
	Verb, Group, Resource string
}

func (c Call) String() string {
	return c.Verb + " " + strings.TrimPrefix(c.Group+"/"+c.Resource, "/")
}

// Calls reads an audit log and returns the requests of the user agents that begin with
// agent, each once. It omits requests without a resource (discovery), because every user
// may make them.
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

// Grants returns the requests that a manifest's ClusterRole and Roles with this name allow.
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

// Refused returns the calls that no role allows, sorted.
func Refused(calls, grants map[Call]bool) []string {
	return missing(calls, grants)
}

// Unused returns the grants that no call used, sorted. Two grants are required by admission
// and never called: */finalizers, by the plugin OwnerReferencesPermissionEnforcement, and
// bind, by the policies of artifacts/. Tests with a role that lacks them show that they are
// needed.
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
