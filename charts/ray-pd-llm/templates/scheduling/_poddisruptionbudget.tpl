{{/* Keeps voluntary evictions from a role's pods: (dict "root" $ "name" "prefill"). Nothing for a role that is not active. */}}
{{- define "ray-pd-llm.podDisruptionBudget" -}}
{{- $budget := (index .root.Values .name).podDisruptionBudget -}}
{{- if and $budget.enabled (has .name (include "ray-pd-llm.roles" .root | fromJsonArray)) -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "ray-pd-llm.childName" (dict "root" .root "suffix" .name) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ray-pd-llm.labels" (dict "root" .root "component" .name) | nindent 4 }}
  {{- with include "ray-pd-llm.annotations" (dict "root" .root) }}{{ . | nindent 2 }}{{- end }}
spec:
  {{- /* A RayCluster has no scale subresource, and for pods of such a controller Kubernetes takes
         nothing but a whole number of pods that must stay. */}}
  minAvailable: {{ max 0 (sub (mul $facts.minReplicas $facts.podsPerReplica) $budget.maxUnavailable) }}
  selector:
    matchLabels:
      {{- include "ray-pd-llm.selector" (dict "root" .root "component" .name) | nindent 6 }}
{{- end -}}
{{- end -}}
