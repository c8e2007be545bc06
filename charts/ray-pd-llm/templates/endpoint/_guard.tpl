{{/*
The guard in front of the engines (files/endpoint_guard). Every pod mounts it, switched on or not, so that
switching it changes no pod: the head reads its class when it builds the application, an ingress replica runs
it in an engine's pod, and engines unpack its requests. With direct streaming it runs in the engines
themselves, which have its settings from a file beside it.
*/}}
{{- define "ray-pd-llm.guardFolder" -}}/opt/ray-pd-llm{{- end -}}

{{- define "ray-pd-llm.guardName" -}}
{{- include "ray-pd-llm.childName" (dict "root" . "suffix" "guard") -}}
{{- end -}}

{{- define "ray-pd-llm.guardMounts" -}}
{{- $folder := include "ray-pd-llm.guardFolder" . -}}
- {name: guard, mountPath: {{ $folder }}/endpoint_guard, readOnly: true}
{{- if .Values.endpoint.guard.apiKeys.existingSecret }}
- {name: api-keys, mountPath: {{ $folder }}/api-keys, readOnly: true}
{{- end }}
{{- end -}}

{{- define "ray-pd-llm.guardVolumes" -}}
- name: guard
  configMap: {name: {{ include "ray-pd-llm.guardName" . }}}
{{- with .Values.endpoint.guard.apiKeys.existingSecret }}
- name: api-keys
  secret: {secretName: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* What of the guard may change while the service runs, by the names of endpoint_guard/settings.py. */}}
{{- define "ray-pd-llm.guardSettings" -}}
{{- $guard := .Values.endpoint.guard -}}
{{- $keyLimits := dict -}}
{{- $replicas := .Values.endpoint.replicas -}}
{{- if .Values.endpoint.directStreaming -}}
  {{- $writer := index .Values (eq .Values.topology.mode "disaggregated" | ternary "decode" "engine") -}}
  {{- $replicas = $writer.autoscaling.enabled | ternary $writer.autoscaling.maxReplicas $writer.replicas -}}
{{- end -}}
{{- range $key, $limits := $guard.keyLimits -}}
  {{- if $limits -}}{{- $_ := set $keyLimits $key (include "ray-pd-llm.keyLimits" $limits | fromYaml) -}}{{- end -}}
{{- end -}}
{{- dict
  "disaggregated" (eq .Values.topology.mode "disaggregated")
  "context" .Values.model.maxModelLen
  "replicas" $replicas
  "api_keys" (ne $guard.apiKeys.existingSecret "")
  "limits" (include "ray-pd-llm.keyLimits" $guard.limits | fromYaml)
  "key_limits" $keyLimits
  "in_flight" $guard.inFlight
  "queue" $guard.queue
  "queue_seconds" $guard.queueSeconds
  "body_bytes" $guard.bodyBytes
  "choices" $guard.choices
  "answer_tokens" $guard.answerTokens
  "extra_fields" $guard.extraFields
  "media_urls" $guard.mediaUrls
  "server_timing" $guard.serverTiming
  | toYaml -}}
{{- end -}}

{{- define "ray-pd-llm.keyLimits" -}}
requests_per_minute: {{ .requestsPerMinute | default 0 | int64 }}
tokens_per_minute: {{ .tokensPerMinute | default 0 | int64 }}
concurrent_requests: {{ .concurrentRequests | default 0 | int64 }}
{{- end -}}
