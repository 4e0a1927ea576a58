{{- define "gvList" -}}
{{- $view := eq (index . 0).Group "view.samplecrd.k8s.io" -}}
{{- if $view -}}
# API reference of pod2-apiserver

<!-- Written by make reference from cmd/pod2-apiserver/apis, which overwrites manual changes. -->

For users and developers who use the optional [aggregated API server](../how-to/list-addresses.md). `kubectl explain`
shows the same text for each field, such as `kubectl explain addresses.status`.
{{ else -}}
# API reference

<!-- Written by make reference from pkg/apis, which overwrites manual changes. -->

For users who write manifests, and for developers who use the API of Pod2. `kubectl explain` shows the same text for
each field, such as `kubectl explain pod2.spec.updateStrategy`. The column Rules has only the simple rules. The API
server also checks rules about several fields, and its answer says which rule is violated. The API group
`view.samplecrd.k8s.io` has [its own page](view-api.md).
{{ end }}{{ range . }}
## {{ .GroupVersionString }}

Kinds:
{{ $gv := . }}
{{- range .SortedKinds }}
- {{ template "link" dict "in" $gv.Version "text" (markdownRenderTypeLink ($gv.TypeForKind .)) }}
{{- end }}
{{ range .SortedTypes }}{{ if markdownShouldRenderType . }}
{{ template "type" dict "type" . "in" $gv.Version }}
{{- end }}{{ end }}
{{- end }}
## Next steps

- [Conditions and events](conditions-and-events.md)
- [Annotations and labels](annotations-and-labels.md)
- [kubectl pod2](kubectl-pod2.md)
{{ end -}}

{{- /* The kind CronTab has two versions, so the heading of v1beta1 has the version. They share all other types. */ -}}
{{- define "link" -}}
{{- if eq .in "v1beta1" }}{{ replace "[CronTab](#crontab)" "[CronTab v1beta1](#crontab-v1beta1)" .text }}{{ else }}{{ .text }}{{ end -}}
{{- end -}}

{{- define "type" -}}
{{- $type := .type }}{{ $in := .in -}}
### {{ $type.Name }}{{ if eq $in "v1beta1" }} v1beta1{{ end }}

{{ $type.Doc | replace "<" "&lt;" }}
{{ if $type.IsAlias }}
Type: {{ markdownRenderTypeLink $type.UnderlyingType }}.
{{- range $type.Validation }} {{ regexReplaceAll `: \{\}$` . "" }}.{{ end }}
{{ end }}
{{- if $type.References }}
Used by:
{{- range $n, $used := $type.SortedReferences }}{{ if $n }},{{ end }} {{ template "link" dict "in" ($used.GVK | default dict).Version "text" (markdownRenderTypeLink $used) }}{{ end }}.
{{ end }}
{{- if $type.EnumValues }}
| Value | Meaning |
|---|---|
{{- range $type.EnumValues }}
| `{{ .Name }}` | {{ .Doc | trim | replace "\n" " " | replace "|" "\\|" | replace "<" "&lt;" }} |
{{- end }}
{{ end }}
{{- if $type.Members }}
| Field | Description | Rules |
|---|---|---|
{{- if $type.GVK }}
| `apiVersion` string | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | Required |
| `kind` string | `{{ $type.GVK.Kind }}` | Required |
{{- end }}
{{- range $type.Members }}
| `{{ .Name }}` {{ template "link" dict "in" $in "text" (markdownRenderType .Type) }} | {{ template "doc" . }} | {{ template "rules" . }} |
{{- end }}
{{ end }}
{{- end -}}

{{- /* Lines of one paragraph are joined. An angle bracket is text, not HTML. */ -}}
{{- define "doc" -}}
{{- if eq .Name "metadata" }}Name, labels and annotations, as of each object of Kubernetes.
{{- else }}{{ regexReplaceAll `\n+` (regexReplaceAll `([^\n])\n([^\n\s-])` .Doc "${1} ${2}") "<br>" | replace "|" "\\|" | replace "<" "&lt;" | replace "&lt;br>" "<br>" }}
{{- end -}}
{{- end -}}

{{- define "rules" -}}
{{- $rules := list -}}
{{- range .Validation }}{{ $rules = append $rules (regexReplaceAll `: \{\}$` . "" | replace "|" "\\|") }}{{ end -}}
{{- with .Default }}{{ $rules = append $rules (printf "Default: %s" .) }}{{ end -}}
{{- join "<br>" $rules -}}
{{- end -}}
