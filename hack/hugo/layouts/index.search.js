{{- $pages := slice -}}
{{- range site.Pages -}}
  {{- if .Plain -}}
    {{- $headings := slice -}}
    {{- range findRE `(?s)<h[23] id="[^"]*">.*?</h[23]>` .Content -}}
      {{- $headings = $headings | append (dict "id" (replaceRE `(?s)<h[23] id="([^"]*)">.*` "$1" .) "text" (. | plainify | htmlUnescape)) -}}
    {{- end -}}
    {{- $pages = $pages | append (dict "title" .Title "url" (strings.TrimPrefix "/" .RelPermalink) "headings" $headings "text" (.Plain | htmlUnescape)) -}}
  {{- end -}}
{{- end -}}
window.pod2SearchIndex = {{ $pages | jsonify }};
