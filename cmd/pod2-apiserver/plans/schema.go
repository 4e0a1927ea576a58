package plans

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/runtime"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pod2/pod2/crd"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// mostBytes is as much as etcd stores by default. mostErrors bounds the answer.
const mostBytes, mostErrors = 3 << 19, 16

// validators check a Pod2 as the API server does when it creates one. The API server's own
// check of the schema is not used: it needs minutes for the errors of a large Pod2.
type validators struct {
	structural *structural.Structural
	rules      *cel.Validator
}

// loaded returns the validators. They take a fifth of a second to make.
var loaded = sync.OnceValues(func() (v validators, err error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.Pod2, &definition); err != nil {
		return v, err
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		return v, err
	}
	if v.structural, err = structural.NewStructural(&schema); err != nil {
		return v, err
	}
	v.rules = cel.NewValidator(v.structural, true, celconfig.PerCallLimit)
	return v, nil
})

// check returns errors with which the API server would refuse to create the Pod2. It sees the
// decoded Pod2, so a missing name, an empty text and a number instead of a quantity pass. It also
// refuses names of volumeClaimTemplates that no volume can have. The API server refuses
// only the pods with these.
func check(ctx context.Context, at *field.Path, p *v1.Pod2) field.ErrorList {
	v, err := loaded()
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("read the CustomResourceDefinition of Pod2s: %w", err))}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	delete(object, "status") // the API server ignores it
	defaulting.PruneNonNullableNullsWithoutDefaults(object, v.structural)
	defaulting.Default(object, v.structural)
	if err := bounds(at, v.structural, object); err != nil {
		return field.ErrorList{err} // the rules need a Pod2 that matches the schema
	}
	errs := listtype.ValidateListSetsAndMaps(at, v.structural, object)
	rules, _ := v.rules.Validate(ctx, at, v.structural, object, nil, celconfig.RuntimeCELCostBudget)
	if errs = append(errs, rules...); len(errs) > 0 {
		return errs[:min(len(errs), mostErrors)]
	}
	for i, template := range p.Spec.VolumeClaimTemplates {
		for _, why := range apivalidation.IsDNS1123Label(template.Name) {
			errs = append(errs, field.Invalid(at.Child("spec", "volumeClaimTemplates").Index(i).Child("metadata", "name"), "", why))
		}
	}
	return errs
}

// bounds returns the first value that the schema does not allow, or nil. The Pod2 was
// decoded before, so it has the right types.
func bounds(at *field.Path, s *structural.Structural, value any) *field.Error {
	v := s.ValueValidation
	if v == nil {
		v = &structural.ValueValidation{}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range v.Required {
			if _, ok := value[name]; !ok {
				return field.Required(at.Child(name), "")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			child, path := s.Properties[name], at.Child(name)
			if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
				child, path = *s.AdditionalProperties.Structural, at.Key(name)
			}
			if err := bounds(path, &child, value[name]); err != nil {
				return err
			}
		}
	case []any:
		if v.MaxItems != nil && len(value) > int(*v.MaxItems) {
			return field.TooMany(at, len(value), int(*v.MaxItems))
		}
		for i, item := range value {
			if s.Items == nil {
				break
			}
			if err := bounds(at.Index(i), s.Items, item); err != nil {
				return err
			}
		}
	case int64:
		if v.Minimum != nil && float64(value) < *v.Minimum || v.Maximum != nil && float64(value) > *v.Maximum {
			return field.Invalid(at, value, fmt.Sprintf("must be from %.0f to %.0f", ptr.Deref(v.Minimum, math.MinInt64), ptr.Deref(v.Maximum, math.MaxInt64)))
		}
	case string:
		if v.MaxLength != nil && utf8.RuneCountInString(value) > int(*v.MaxLength) {
			return field.TooLong(at, "", int(*v.MaxLength))
		}
		if v.MinLength != nil && utf8.RuneCountInString(value) < int(*v.MinLength) {
			return field.Invalid(at, value, fmt.Sprintf("must have at least %d characters", *v.MinLength))
		}
		if len(v.Enum) > 0 && !slices.ContainsFunc(v.Enum, func(e structural.JSON) bool { return e.Object == value }) {
			return field.Invalid(at, value, fmt.Sprintf("must be one of %v", v.Enum))
		}
		if v.Pattern != "" && !s.XIntOrString { // a quantity was decoded before
			if matches, err := regexp.MatchString(v.Pattern, value); err != nil || !matches {
				return field.Invalid(at, value, "must match "+v.Pattern)
			}
		}
	}
	return nil
}
