//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// One run of kubectl takes half a second of a core, most of it for discovery, and the tests
// run thousands. So the usual commands of the tests run in this process, with the requests
// that kubectl would make. A command outside of this table, even by one flag, is run by the
// binary. TestKubectlInProcess compares the two.
var verbs = map[string]struct {
	flags string // in addition to -n
	run   func(k *kubectlCall) error
}{
	"get":      {"o l field-selector ignore-not-found", (*kubectlCall).get},
	"create":   {"f o dry-run", (*kubectlCall).create},
	"patch":    {"p type subresource", (*kubectlCall).patch},
	"scale":    {"replicas", (*kubectlCall).scale},
	"annotate": {"all l overwrite", func(k *kubectlCall) error { return k.mark("annotations", "annotated") }},
	"label":    {"all l overwrite", func(k *kubectlCall) error { return k.mark("labels", "labeled") }},
	"delete":   {"all l field-selector cascade wait timeout", (*kubectlCall).delete},
	"wait":     {"for timeout", (*kubectlCall).wait},
}

// errBinary leaves a call to the binary. Nothing has been done yet.
var errBinary = errors.New("not done in this process")

// kubectlCall is one command and its output.
type kubectlCall struct {
	ctx       context.Context
	stdin     string
	namespace string
	args      []string // after the verb
	out       bytes.Buffer

	output, selector, fields, file, patchText, patchType, subresource, cascade, until, dryRun string
	ignoreNotFound, all, overwrite, waits                                                     bool
	replicas                                                                                  int
	timeout                                                                                   time.Duration
}

// inProcess returns errBinary, or the output of kubectl on both streams.
func inProcess(ctx context.Context, stdin string, args []string) (string, error) {
	k := &kubectlCall{ctx: ctx, stdin: stdin}
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVarP(&k.namespace, "namespace", "n", "default", "")
	flags.StringVarP(&k.output, "o", "o", "", "")
	flags.StringVarP(&k.selector, "l", "l", "", "")
	flags.StringVarP(&k.file, "f", "f", "", "")
	flags.StringVarP(&k.patchText, "p", "p", "", "")
	flags.StringVar(&k.fields, "field-selector", "", "")
	flags.StringVar(&k.patchType, "type", "strategic", "")
	flags.StringVar(&k.subresource, "subresource", "", "")
	flags.StringVar(&k.cascade, "cascade", "background", "")
	flags.StringVar(&k.until, "for", "", "")
	flags.StringVar(&k.dryRun, "dry-run", "", "")
	flags.BoolVar(&k.ignoreNotFound, "ignore-not-found", false, "")
	flags.BoolVar(&k.all, "all", false, "")
	flags.BoolVar(&k.overwrite, "overwrite", false, "")
	flags.BoolVar(&k.waits, "wait", true, "")
	flags.IntVar(&k.replicas, "replicas", 0, "")
	flags.DurationVar(&k.timeout, "timeout", 0, "")
	if flags.Parse(args) != nil || flags.NArg() == 0 {
		return "", errBinary
	}
	verb, known := verbs[flags.Arg(0)]
	flags.Visit(func(f *pflag.Flag) {
		known = known && (f.Name == "namespace" || slices.Contains(strings.Fields(verb.flags), f.Name))
	})
	if !known {
		return "", errBinary
	}
	if k.namespace == "" {
		k.namespace = metav1.NamespaceDefault
	}
	k.args = flags.Args()[1:]
	err := verb.run(k)
	if err != nil {
		fmt.Fprintln(&k.out, "Error:", err)
	}
	return k.out.String(), err
}

// kindClient is the client of a kind, in the namespace of the call if the kind is
// namespaced.
type kindClient struct {
	dynamic.ResourceInterface
	mapping *meta.RESTMapping
}

// name returns the output of `-o name`.
func (c kindClient) name(name string) string {
	kind := strings.ToLower(c.mapping.GroupVersionKind.Kind)
	if group := c.mapping.GroupVersionKind.Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + name
}

func (k *kubectlCall) of(mapping *meta.RESTMapping) kindClient {
	client := dyn.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return kindClient{client.Namespace(k.namespace), mapping}
	}
	return kindClient{client, mapping}
}

// kind resolves `pods`, `p2`, `crontabs.v1.stable.example.com`.
func (k *kubectlCall) kind(arg string) (kindClient, error) {
	full, resource := schema.ParseResourceArg(strings.ToLower(arg))
	return k.resolve(func() (*meta.RESTMapping, error) {
		gvr := resource.WithVersion("")
		if full != nil {
			if found, err := mapper.ResourceFor(*full); err == nil {
				gvr = found
			}
		}
		kind, err := mapper.KindFor(gvr)
		if err != nil {
			return nil, err
		}
		return mapper.RESTMapping(kind.GroupKind(), kind.Version)
	})
}

// resolve asks for a kind. If the kind is unknown, it asks again with the server's present
// kinds, because CRDs come and go.
func (k *kubectlCall) resolve(ask func() (*meta.RESTMapping, error)) (kindClient, error) {
	mapping, err := ask()
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(mapper)
		mapping, err = ask()
	}
	if err != nil {
		return kindClient{}, err
	}
	return k.of(mapping), nil
}

// target is an object by name.
type target struct {
	kindClient
	object string
}

func (o target) String() string { return o.name(o.object) }

// targets parses `pod web-0 web-1`, each of `service,endpointslice web`, or `pod/web-0
// ab/blue-10.0.0.0`. It returns none if no objects are named.
func (k *kubectlCall) targets() (targets []target, err error) {
	named := func(kind, name string) error {
		client, err := k.kind(kind)
		targets = append(targets, target{client, name})
		return err
	}
	if len(k.args) > 0 && !strings.Contains(k.args[0], "/") {
		for _, kind := range strings.Split(k.args[0], ",") {
			for _, name := range k.args[1:] {
				if err := named(kind, name); err != nil {
					return nil, err
				}
			}
		}
		return targets, nil
	}
	for _, arg := range k.args {
		kind, name, _ := strings.Cut(arg, "/")
		if err := named(kind, name); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// objects returns the named objects, or the selected ones of the kinds `pods,ab`. Like
// kubectl, it continues after an error, and returns the existing objects with it.
func (k *kubectlCall) objects() (objects []unstructured.Unstructured, clients []kindClient, single bool, err error) {
	targets, err := k.targets()
	if err != nil {
		return nil, nil, false, err
	}
	var failed []error
	for _, o := range targets {
		object, err := o.Get(k.ctx, o.object, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && k.ignoreNotFound {
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		objects, clients = append(objects, *object), append(clients, o.kindClient)
	}
	if len(targets) > 0 {
		return objects, clients, len(targets) == 1, errors.Join(failed...)
	}
	for _, kind := range strings.Split(k.args[0], ",") {
		client, err := k.kind(kind)
		if err != nil {
			return nil, nil, false, err
		}
		list, err := client.List(k.ctx, metav1.ListOptions{LabelSelector: k.selector, FieldSelector: k.fields})
		if err != nil {
			return nil, nil, false, err
		}
		objects = append(objects, list.Items...)
		clients = append(clients, slices.Repeat([]kindClient{client}, len(list.Items))...)
	}
	return objects, clients, false, nil
}
