{{/* Node selector of a pod as a map: the user's, the role's instance type, the zone. */}}
{{- define "ray-pd-llm.nodeSelector" -}}
{{- $own := dict -}}
{{- if ne .component "head" -}}
  {{- with .settings.instanceType -}}{{- $_ := set $own "node.kubernetes.io/instance-type" . -}}{{- end -}}
  {{- with .root.Values.placement.zone -}}
    {{- /* us-east-1a is a zone's name, use1-az1 its id, the same in every account. */ -}}
    {{- $key := regexMatch "-az[0-9]+$" . | ternary "topology.k8s.aws/zone-id" "topology.kubernetes.io/zone" -}}
    {{- $_ := set $own $key . -}}
  {{- end -}}
{{- end -}}
{{- include "ray-pd-llm.map" (merge (dict) .settings.nodeSelector $own) -}}
{{- end -}}

{{/*
Affinity of a pod: what `placement` asks for, and the user's own rules added to it. The first engine
pod may go to any zone; Kubernetes lets a pod through that only its own kind could satisfy.
*/}}
{{- define "ray-pd-llm.affinity" -}}
{{- $user := .settings.affinity -}}
{{- $near := list -}}
{{- $apart := list -}}
{{- $mode := .root.Values.topology.mode -}}
{{- if ne .component "head" -}}
  {{- $placement := .root.Values.placement -}}
  {{- $release := include "ray-pd-llm.selector" (dict "root" .root) | fromYaml -}}
  {{- if and $placement.sameZone (ne $mode "aggregated") -}}
    {{- $near = append $near (dict
      "topologyKey" "topology.kubernetes.io/zone"
      "labelSelector" (dict "matchLabels" $release "matchExpressions" (list (dict
        "key" "app.kubernetes.io/component" "operator" "In" "values" (include "ray-pd-llm.roles" .root | fromJsonArray))))) -}}
  {{- end -}}
  {{- if and $placement.rolesApart (eq $mode "disaggregated") -}}
    {{- $other := eq .component "prefill" | ternary "decode" "prefill" -}}
    {{- $apart = append $apart (dict
      "topologyKey" "kubernetes.io/hostname"
      "labelSelector" (dict "matchLabels" (merge (dict "app.kubernetes.io/component" $other) $release))) -}}
  {{- end -}}
{{- end -}}
{{- $affinity := dict -}}
{{- with $user.nodeAffinity -}}{{- $_ := set $affinity "nodeAffinity" . -}}{{- end -}}
{{- range $kind, $rules := dict "podAffinity" $near "podAntiAffinity" $apart -}}
  {{- $own := index $user $kind | default dict -}}
  {{- $required := concat $rules (index $own "requiredDuringSchedulingIgnoredDuringExecution" | default list) -}}
  {{- $preferred := index $own "preferredDuringSchedulingIgnoredDuringExecution" | default list -}}
  {{- $merged := dict -}}
  {{- if $required -}}{{- $_ := set $merged "requiredDuringSchedulingIgnoredDuringExecution" $required -}}{{- end -}}
  {{- if $preferred -}}{{- $_ := set $merged "preferredDuringSchedulingIgnoredDuringExecution" $preferred -}}{{- end -}}
  {{- if $merged -}}{{- $_ := set $affinity $kind $merged -}}{{- end -}}
{{- end -}}
{{- if $affinity -}}{{ toYaml $affinity }}{{- end -}}
{{- end -}}
