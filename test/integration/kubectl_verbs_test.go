//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/jsonpath"
)

// The verbs of kubectl that run in this process.

func (k *kubectlCall) get() error {
	path, isPath := strings.CutPrefix(k.output, "jsonpath=")
	if len(k.args) == 0 || !isPath && k.output != "name" {
		return errBinary
	}
	objects, clients, single, err := k.objects()
	switch {
	case k.output == "name":
		for i, object := range objects {
			fmt.Fprintln(&k.out, clients[i].name(object.GetName()))
		}
		return err
	case single && len(objects) == 0:
		return err
	case single:
		return printPath(&k.out, path, objects[0].Object)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}, Items: objects}
	return errors.Join(err, printPath(&k.out, path, list.UnstructuredContent()))
}

func (k *kubectlCall) create() error {
	path, isPath := strings.CutPrefix(k.output, "jsonpath=")
	if k.file != "-" || len(k.args) > 0 || k.output != "" && !isPath || k.dryRun != "" && k.dryRun != "server" {
		return errBinary
	}
	options := metav1.CreateOptions{FieldManager: "kubectl-create", FieldValidation: metav1.FieldValidationStrict}
	if k.dryRun != "" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var failed []error
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(k.stdin), 4096)
	for {
		var text json.RawMessage
		if err := decoder.Decode(&text); errors.Is(err, io.EOF) {
			return errors.Join(failed...) // like kubectl, continue after a refusal
		} else if err != nil {
			return errors.Join(append(failed, err)...)
		}
		if len(text) == 0 || string(text) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			return errors.Join(append(failed, err)...)
		}
		kind := object.GroupVersionKind()
		client, err := k.resolve(func() (*meta.RESTMapping, error) { return mapper.RESTMapping(kind.GroupKind(), kind.Version) })
		if err != nil {
			failed = append(failed, err)
			continue
		}
		made, err := client.Create(k.ctx, object, options)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if !isPath {
			fmt.Fprintln(&k.out, client.name(made.GetName()), "created")
		} else if err := printPath(&k.out, path, made.Object); err != nil {
			return err
		}
	}
}

func (k *kubectlCall) patch() error {
	how, ok := map[string]types.PatchType{
		"strategic": types.StrategicMergePatchType, "merge": types.MergePatchType, "json": types.JSONPatchType,
	}[k.patchType]
	if !ok {
		return errBinary
	}
	var subresources []string
	if k.subresource != "" {
		subresources = append(subresources, k.subresource)
	}
	return k.patchEach(how, []byte(k.patchText), "patched", subresources...)
}

func (k *kubectlCall) scale() error {
	return k.patchEach(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, k.replicas), "scaled", "scale")
}

func (k *kubectlCall) patchEach(how types.PatchType, patch []byte, done string, subresources ...string) error {
	targets, err := k.targets()
	if err != nil || len(targets) == 0 {
		return orBinary(err)
	}
	var failed []error
	for _, o := range targets {
		if _, err := o.Patch(k.ctx, o.object, how, patch, metav1.PatchOptions{FieldManager: "kubectl-" + done}, subresources...); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintln(&k.out, o, done)
	}
	return errors.Join(failed...)
}

// mark sets or, as `key-`, removes labels or annotations.
func (k *kubectlCall) mark(field, done string) error {
	marks := map[string]any{}
	k.args = slices.DeleteFunc(k.args, func(arg string) bool {
		key, value, sets := strings.Cut(arg, "=")
		name, removes := strings.CutSuffix(arg, "-")
		switch {
		case sets:
			marks[key] = value
		case removes:
			marks[name] = nil
		}
		return sets || removes
	})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: marks}})
	if err != nil {
		return err
	}
	objects, clients, _, missing := k.objects()
	for i, object := range objects {
		have, _, _ := unstructured.NestedStringMap(object.Object, "metadata", field)
		for key, value := range marks {
			if old, has := have[key]; has && value != nil && value != old && !k.overwrite {
				return fmt.Errorf("--overwrite is false but found the following declared %s(s): '%s' already has a value (%s)", field, key, old)
			}
		}
		if _, err := clients[i].Patch(k.ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-" + field}); err != nil {
			return err
		}
		fmt.Fprintln(&k.out, clients[i].name(object.GetName()), done)
	}
	return missing
}

func (k *kubectlCall) delete() error {
	how, ok := map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground, "orphan": metav1.DeletePropagationOrphan,
	}[k.cascade]
	if named, err := k.targets(); !ok || err != nil || len(named) == 0 && !k.all && k.selector == "" && k.fields == "" {
		return orBinary(err)
	}
	objects, clients, _, missing := k.objects()
	if len(objects) == 0 && missing == nil {
		fmt.Fprintln(&k.out, "No resources found")
	}
	for i, object := range objects {
		err := clients[i].Delete(k.ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &how})
		if apierrors.IsNotFound(err) && k.all {
			continue // it is already gone
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&k.out, "%s deleted\n", clients[i].name(object.GetName()))
	}
	if !k.waits {
		return missing
	}
	return errors.Join(missing, k.poll(func(ctx context.Context) (string, error) {
		for i, object := range objects {
			now, err := clients[i].Get(ctx, object.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil || now.GetUID() == object.GetUID() {
				return clients[i].name(object.GetName()) + " still exists", err
			}
		}
		return "", nil
	}))
}

func orBinary(err error) error {
	if err != nil {
		return err
	}
	return errBinary
}

// printPath prints like `-o jsonpath=`.
func printPath(to io.Writer, path string, object map[string]any) error {
	template := jsonpath.New("out").AllowMissingKeys(true)
	if err := template.Parse(path); err != nil {
		return err
	}
	return template.Execute(to, object)
}
