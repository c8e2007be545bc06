{{/*
Security contexts. Everything keeps to the restricted pod security profile but one: an engine with EFA
has to lock memory, and Kubernetes gives added capabilities to root only. So it runs as root with
every capability dropped and IPC_LOCK added.
*/}}
{{- define "ray-pd-llm.runsAsRoot" -}}
{{- and (ne .component "head") (gt (int (.facts.efaInterfaces | default 0)) 0) -}}
{{- end -}}

{{- define "ray-pd-llm.podSecurityContext" -}}
{{- $context := .root.Values.securityContext -}}
{{- if eq (include "ray-pd-llm.runsAsRoot" .) "true" -}}
runAsUser: 0
runAsNonRoot: false
{{- else -}}
runAsUser: {{ int64 $context.runAsUser }}
runAsGroup: {{ int64 $context.fsGroup }}
runAsNonRoot: true
{{- end }}
fsGroup: {{ int64 $context.fsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "ray-pd-llm.containerSecurityContext" -}}
{{- $root := eq (include "ray-pd-llm.runsAsRoot" .) "true" -}}
{{- if and $root .root.Values.transport.efa.privileged -}}
privileged: true
{{- else -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  {{- if $root }}
  add: [IPC_LOCK]
  {{- end }}
{{- end }}
readOnlyRootFilesystem: {{ .root.Values.securityContext.readOnlyRootFilesystem }}
{{- end -}}
