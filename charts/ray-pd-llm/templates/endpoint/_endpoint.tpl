{{/* The Service of the API; KubeRay makes it when the application runs. */}}
{{- define "ray-pd-llm.serviceName" -}}
{{- include "ray-pd-llm.fullname" . }}-serve-svc
{{- end -}}
