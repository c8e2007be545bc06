{{/*
Names. KubeRay allows 47 characters for a RayService and wants a letter first (DNS-1035). A name that
has to be changed to fit ends in a hash of the whole, so that two long names that differ only at
their ends stay different.
*/}}
{{- define "ray-pd-llm.fullname" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
  {{- $name = contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) -}}
{{- end -}}
{{- include "ray-pd-llm.fit" (list $name 47) -}}
{{- end -}}

{{/* A name derived from the full name, within the 63 characters of a label: (dict "root" $ "suffix" "decode"). */}}
{{- define "ray-pd-llm.childName" -}}
{{- include "ray-pd-llm.fit" (list (printf "%s-%s" (include "ray-pd-llm.fullname" .root) .suffix) 63) -}}
{{- end -}}

{{/* fit: (list name length) */}}
{{- define "ray-pd-llm.fit" -}}
{{- $name := index . 0 -}}
{{- $length := index . 1 -}}
{{- $fitting := $name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $fitting -}}{{- $fitting = printf "r%s" $fitting -}}{{- end -}}
{{- if or (ne $fitting $name) (gt (len $fitting) $length) -}}
  {{- $hash := sha256sum $name | trunc 8 -}}
  {{- printf "%s-%s" ($fitting | trunc (sub $length 9 | int) | trimSuffix "-") $hash -}}
{{- else -}}
  {{- $fitting -}}
{{- end -}}
{{- end -}}

{{/* The labels that find this release's pods: (dict "root" $). A component narrows them. */}}
{{- define "ray-pd-llm.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name | trunc 63 | trimSuffix "-" | trimSuffix "." | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* The labels of an object: (dict "root" $ "component" "cache"). Not for pods: the chart's version
in a pod template would start a new Ray cluster with every release of the chart. */}}
{{- define "ray-pd-llm.labels" -}}
{{- $labels := include "ray-pd-llm.selector" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "ray-pd-llm" -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63) -}}
{{- include "ray-pd-llm.map" (merge $labels .root.Values.commonLabels) -}}
{{- end -}}

{{/* Annotations of an object: (dict "root" $ "own" map). Prints the whole block, or nothing. */}}
{{- define "ray-pd-llm.annotations" -}}
{{- $all := merge (dict) (.own | default dict) .root.Values.commonAnnotations -}}
{{- with include "ray-pd-llm.map" $all -}}
annotations:
  {{- . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* A map of strings as YAML, without the keys that are null. */}}
{{- define "ray-pd-llm.map" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
  {{- if not (kindIs "invalid" $value) -}}{{- $_ := set $kept $key $value -}}{{- end -}}
{{- end -}}
{{- if $kept -}}{{ toYaml $kept }}{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "ray-pd-llm.fullname" .) "default") -}}
{{- end -}}
