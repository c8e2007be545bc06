{{/*
Values. Every template file begins with

    {{- include "ray-pd-llm.values" . -}}

which writes what is missing or null into .Values, in place: a block set to null, or values kept by
`--reuse-values` from a release older than a block, then act as the default instead of ending in a
nil pointer. Free maps (env, labels, nodeSelector ...) become empty, not the default again.

It also reads the chart's tables of facts: `$.Tables.ports` is files/ports.yaml. Helm hands one and the
same `$` to every file of a chart, so both are done once in a render. Reading YAML is what costs time: the
defaults are JSON, and of a table with a line for each entry only the lines that matter are read.
*/}}
{{- define "ray-pd-llm.values" -}}
{{- if not (hasKey . "Tables") -}}
  {{- $values := .Values -}}
  {{- include "ray-pd-llm.fill" (list $values (.Files.Get "files/defaults.json" | fromJson)) -}}
  {{- $tables := dict -}}
  {{- range list "ports" "versions" -}}
    {{- $_ := set $tables . ($.Files.Get (printf "files/%s.yaml" .) | fromYaml) -}}
  {{- end -}}
  {{- $types := list $values.head.instanceType $values.prefill.instanceType $values.decode.instanceType $values.engine.instanceType -}}
  {{- range $table, $keys := dict "instances" (uniq $types) "models" (list $values.model.source) -}}
    {{- $text := $.Files.Get (printf "files/%s.yaml" $table) -}}
    {{- $entries := dict -}}
    {{- range $keys -}}
      {{- $line := regexFind (printf "\n%s: .*" (regexQuoteMeta .)) $text -}}
      {{- $entries = merge $entries (fromYaml $line) -}}
    {{- end -}}
    {{- $_ := set $tables $table $entries -}}
  {{- end -}}
  {{- $_ := set . "Tables" $tables -}}
{{- end -}}
{{- end -}}

{{/* read: (list $ table), a table that most values need nothing of, read once it is needed. Prints nothing. */}}
{{- define "ray-pd-llm.read" -}}
{{- $root := index . 0 -}}
{{- $table := index . 1 -}}
{{- if not (hasKey $root.Tables $table) -}}
  {{- $_ := set $root.Tables $table ($root.Files.Get (printf "files/%s.yaml" $table) | fromYaml) -}}
{{- end -}}
{{- end -}}

{{/* fill: (list values defaults), prints nothing. */}}
{{- define "ray-pd-llm.fill" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
  {{- $value := index $values $key -}}
  {{- if kindIs "invalid" $value -}}
    {{- $_ := set $values $key $default -}}
  {{- else if and (kindIs "map" $default) (kindIs "map" $value) -}}
    {{- include "ray-pd-llm.fill" (list $value $default) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/*
Bytes of a quantity such as 16Gi, as a whole number in text. The schema lets only Ki, Mi, Gi and Ti
through.
*/}}
{{- define "ray-pd-llm.bytes" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[A-Za-z]+$" . -}}
{{- $powers := dict "Ki" 1 "Mi" 2 "Gi" 3 "Ti" 4 -}}
{{- range $i := until (index $powers $unit) -}}
  {{- $number = mul $number 1024 -}}
{{- end -}}
{{- $number -}}
{{- end -}}

{{/* Millicores of a CPU quantity such as 4 or 500m, as a whole number in text. */}}
{{- define "ray-pd-llm.millicores" -}}
{{- if hasSuffix "m" . -}}{{ trimSuffix "m" . }}{{- else -}}{{ mul (int64 .) 1000 }}{{- end -}}
{{- end -}}

{{/* The facts of an instance type as JSON; an empty object for a type that is not known. */}}
{{- define "ray-pd-llm.instance" -}}
{{- index .root.Tables.instances .type | default dict | toJson -}}
{{- end -}}
