{{- /*
The files below files/ are copies of those in artifacts/ of the repository: `make generate` makes them. The templates read them
and set the values. With the default values, this chart and artifacts/ have the same objects.
*/ -}}

{{- /* A file, with the namespace of the release: (list $ "10-rbac.yaml") */ -}}
{{- define "pod2.file" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (printf "files/%s" (index . 1)) | replace "pod2-system" $root.Release.Namespace -}}
{{- end -}}

{{- /* An image: (list $ "pod2-agent" $root.Values.agent.image) */ -}}
{{- define "pod2.image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- with index . 2 -}}
{{ . }}
{{- else -}}
{{ with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $name }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Sets the values of a component in its pod template, in place: (list $ $template "pod2-agent" $root.Values.agent) */ -}}
{{- define "pod2.pod" -}}
{{- $root := index . 0 -}}
{{- $pod := (index . 1).spec -}}
{{- $v := index . 3 -}}
{{- $image := include "pod2.image" (list $root (index . 2) $v.image) -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- if hasPrefix (index $ 2) .image -}}
{{- $_ := set . "image" $image -}}
{{- $_ := set . "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := dict "nodeSelector" $v.nodeSelector "tolerations" $v.tolerations "priorityClassName" $v.priorityClassName "imagePullSecrets" $root.Values.image.pullSecrets -}}
{{- if $value -}}{{- $_ := set $pod $key $value -}}{{- else -}}{{- $_ := unset $pod $key -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Sets the values of a program in its container, in place: (list $container $root.Values.agent (list "--flag")) */ -}}
{{- define "pod2.container" -}}
{{- $container := index . 0 -}}
{{- $v := index . 1 -}}
{{- $_ := set $container "args" (concat $container.args (index . 2) $v.args) -}}
{{- $_ := set $container "resources" $v.resources -}}
{{- range $container.env -}}
{{- if eq .name "GOMEMLIMIT" -}}{{- $_ := set . "value" $v.goMemLimit -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Sets the directory of the CNI plugins, in place: (list $pod "/opt/cni/bin") */ -}}
{{- define "pod2.cniBinDir" -}}
{{- range (index . 0).volumes -}}
{{- if eq .name "cni-bin" -}}{{- $_ := set .hostPath "path" (index $ 1) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Sets the namespace of the agent, in place: (list $object "pod2-agent" "kube-agents") */ -}}
{{- define "pod2.agentNamespace" -}}
{{- $object := index . 0 -}}
{{- range concat (list $object.metadata) ($object.subjects | default list) -}}
{{- if eq (.namespace | default "") (index $ 1) -}}{{- $_ := set . "namespace" (index $ 2) -}}{{- end -}}
{{- end -}}
{{- if eq $object.kind "Namespace" -}}{{- $_ := set $object.metadata "name" (index . 2) -}}{{- end -}}
{{- end -}}
