{{/* Where a container finds the Hugging Face token, as a `valueFrom` block; empty for none. */}}
{{- define "ray-pd-llm.hfTokenRef" -}}
{{- $hub := .Values.huggingface -}}
{{- if or $hub.existingSecret.name $hub.token -}}
valueFrom:
  secretKeyRef:
    name: {{ $hub.existingSecret.name | default (include "ray-pd-llm.childName" (dict "root" . "suffix" "hf-token")) }}
    key: {{ $hub.existingSecret.key }}
{{- end -}}
{{- end -}}
