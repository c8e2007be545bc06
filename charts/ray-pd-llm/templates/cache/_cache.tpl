{{/* The cache: one volume named `cache`, mounted by engines and by the prefetch Job. */}}
{{- define "ray-pd-llm.cacheVolume" -}}
{{- $cache := .Values.cache -}}
- name: cache
{{- if eq $cache.type "hostPath" }}
  # Directory, not DirectoryOrCreate: where the NVMe is not mounted the pod waits and says so.
  hostPath: {path: {{ $cache.hostPath.path }}, type: Directory}
{{- else if eq $cache.type "persistentVolumeClaim" }}
  persistentVolumeClaim: {claimName: {{ include "ray-pd-llm.claimName" . }}}
{{- else }}
  emptyDir: {{ with $cache.emptyDir.sizeLimit }}{sizeLimit: {{ . }}}{{ else }}{}{{ end }}
{{- end }}
{{- end -}}

{{- define "ray-pd-llm.cacheMount" -}}
{{- $cache := .Values.cache -}}
- name: cache
  mountPath: {{ $cache.mountPath }}
{{- if and (eq $cache.type "hostPath") $cache.hostPath.subPath }}
  subPath: {{ $cache.hostPath.subPath }}
{{- end }}
{{- end -}}

{{- define "ray-pd-llm.claimName" -}}
{{- .Values.cache.persistentVolumeClaim.existingClaim | default (include "ray-pd-llm.childName" (dict "root" . "suffix" "cache")) -}}
{{- end -}}

{{/* Init container that gives a host folder to the engine's user; fsGroup does not reach host paths. */}}
{{- define "ray-pd-llm.cacheOwner" -}}
{{- $values := .root.Values -}}
{{- if and (eq $values.cache.type "hostPath") $values.cache.hostPath.setOwner (ne (include "ray-pd-llm.runsAsRoot" .) "true") -}}
- name: cache-owner
  image: {{ include "ray-pd-llm.image" .root }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  command: [chown, "{{ int64 $values.securityContext.runAsUser }}:{{ int64 $values.securityContext.fsGroup }}", {{ $values.cache.mountPath }}]
  resources:
    limits: {memory: 64Mi}
    requests: {cpu: 10m, memory: 64Mi}
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN]}
  volumeMounts:
    {{- include "ray-pd-llm.cacheMount" .root | nindent 4 }}
{{- end -}}
{{- end -}}
