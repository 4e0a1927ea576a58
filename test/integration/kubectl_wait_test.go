//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// poll calls check every 100 ms until it returns "", or until the timeout of the call.
func (k *kubectlCall) poll(check func(context.Context) (string, error)) error {
	ctx, cancel := k.ctx, func() {}
	if k.timeout > 0 {
		ctx, cancel = context.WithTimeout(k.ctx, k.timeout)
	}
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		why, err := check(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("timed out waiting: %s", why)
		}
		if why == "" || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out waiting: %s", why)
		case <-tick.C:
		}
	}
}

func (k *kubectlCall) wait() error {
	check, ok := waitFor(k.until)
	targets, err := k.targets()
	if !ok || err != nil || len(targets) == 0 || k.timeout <= 0 {
		return orBinary(err)
	}
	seen := map[string]bool{}
	if err := k.poll(func(ctx context.Context) (string, error) {
		for _, o := range targets {
			object, err := o.Get(ctx, o.object, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err) && k.until == "delete":
				continue
			case apierrors.IsNotFound(err) && k.until == "create":
				return o.String() + " does not exist", nil
			case err != nil:
				return "", err
			}
			seen[o.String()] = true
			if met, err := check(object); err != nil || !met {
				return o.String() + " does not meet " + strconv.Quote(k.until), err
			}
		}
		return "", nil
	}); err != nil {
		return err
	}
	for _, o := range targets {
		if seen[o.String()] {
			fmt.Fprintln(&k.out, o, "condition met")
		}
	}
	return nil
}

// waitFor parses the condition of --for. A condition of an older generation does not count.
func waitFor(until string) (met func(*unstructured.Unstructured) (bool, error), ok bool) {
	kind, rest, _ := strings.Cut(until, "=")
	switch kind {
	case "delete":
		return func(*unstructured.Unstructured) (bool, error) { return false, nil }, rest == ""
	case "create":
		return func(*unstructured.Unstructured) (bool, error) { return true, nil }, rest == ""
	case "condition":
		name, want, given := strings.Cut(rest, "=")
		if !given {
			want = "True"
		}
		return func(object *unstructured.Unstructured) (bool, error) {
			// Null conditions are not an error here, unlike in kubectl: a CRD's conditions
			// begin as null.
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, c := range conditions {
				condition, _ := c.(map[string]any)
				if kind, _, _ := unstructured.NestedString(condition, "type"); !strings.EqualFold(kind, name) {
					continue
				}
				observed, told, _ := unstructured.NestedInt64(condition, "observedGeneration")
				if !told {
					observed, told, _ = unstructured.NestedInt64(object.Object, "status", "observedGeneration")
				}
				status, _, _ := unstructured.NestedString(condition, "status")
				return strings.EqualFold(status, want) && (!told || observed >= object.GetGeneration()), nil
			}
			return false, nil
		}, name != ""
	case "jsonpath":
		path, want, given := strings.Cut(rest, "}=")
		if given {
			path += "}"
		}
		return func(object *unstructured.Unstructured) (bool, error) {
			var got bytes.Buffer
			err := printPath(&got, path, object.Object)
			return given && got.String() == want || !given && got.Len() > 0, err
		}, true
	}
	return nil, false
}
