{{/*
The Job that fills a role's cache before an engine holds a GPU: (dict "root" $ "name" "prefill"). A
claim is shared, so one download, under the first role's name, fills it. A host path is filled on every
node of each role: one pod per node, kept apart by host name. What a Job does cannot be changed, and
Helm's upgrade would end there, so the hash of it is part of its name.
*/}}
{{- define "ray-pd-llm.prefetchJob" -}}
{{- $values := .root.Values -}}
{{- $roles := include "ray-pd-llm.roles" .root | fromJsonArray -}}
{{- $shared := eq $values.cache.type "persistentVolumeClaim" -}}
{{- if and $values.cache.prefetch.enabled (has .name ($shared | ternary (list (first $roles)) $roles)) -}}
{{- $settings := index $values .name -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}
{{- $pods := $shared | ternary 1 (mul $facts.maxReplicas $facts.podsPerReplica) -}}
{{- /* Engines that share a node share its cache. */ -}}
{{- $instance := include "ray-pd-llm.instance" (dict "root" .root "type" $settings.instanceType) | fromJson -}}
{{- if $instance -}}
  {{- $perNode := div (int (max $instance.gpu.count $facts.devicesPerPod)) (int $facts.devicesPerPod) -}}
  {{- $pods = div (add $pods $perNode -1) $perNode -}}
{{- end -}}
{{- $component := printf "prefetch-%s" .name -}}
{{- $spec := include "ray-pd-llm.prefetchSpec" (dict
  "root" .root "component" .name "settings" $settings "facts" $facts
  "shared" $shared "pods" $pods "selector" (include "ray-pd-llm.selector" (dict "root" .root "component" $component))
) -}}
{{- $suffix := printf "%s-%s" $component ($spec | sha256sum | trunc 8) -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "ray-pd-llm.childName" (dict "root" .root "suffix" $suffix) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ray-pd-llm.labels" (dict "root" .root "component" $component) | nindent 4 }}
  {{- with include "ray-pd-llm.annotations" (dict "root" .root) }}{{ . | nindent 2 }}{{- end }}
spec:
  {{- $spec | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* What the Job does: the scope of a pod, and in it "shared", "pods" and the "selector" of its own pods. */}}
{{- define "ray-pd-llm.prefetchSpec" -}}
{{- $values := .root.Values -}}
completions: {{ .pods }}
parallelism: {{ .pods }}
backoffLimit: {{ int $values.cache.prefetch.backoffLimit }}
template:
  metadata:
    labels:
      {{- .selector | nindent 6 }}
  spec:
    restartPolicy: OnFailure
    serviceAccountName: {{ include "ray-pd-llm.serviceAccountName" .root }}
    automountServiceAccountToken: false
    enableServiceLinks: false
    securityContext:
      {{- include "ray-pd-llm.podSecurityContext" . | nindent 6 }}
    {{- with $values.image.pullSecrets }}
    imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
    {{- end }}
    {{- with include "ray-pd-llm.nodeSelector" . | trim }}
    nodeSelector:
      {{- . | nindent 6 }}
    {{- end }}
    {{- with .settings.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if not .shared }}
    affinity:
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- .selector | nindent 16 }}
    {{- end }}
    {{- with include "ray-pd-llm.cacheOwner" . }}
    initContainers:
      {{- . | nindent 6 }}
    {{- end }}
    containers:
      - name: prefetch
        image: {{ include "ray-pd-llm.image" .root }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        command:
          - python3
          - -c
          - |
            {{- .root.Files.Get "files/prefetch.py" | nindent 12 }}
          - {{ $values.model.source | quote }}
          - {{ $values.model.revision | quote }}
        env:
          - {name: HOME, value: /tmp}
          - {name: HF_HOME, value: {{ $values.cache.mountPath }}/huggingface}
          {{- with include "ray-pd-llm.hfTokenRef" .root }}
          - name: HF_TOKEN
            {{- . | nindent 12 }}
          {{- end }}
        resources:
          limits:
            memory: {{ $values.cache.prefetch.resources.memory }}
          requests:
            cpu: {{ $values.cache.prefetch.resources.cpu }}
            memory: {{ $values.cache.prefetch.resources.memory }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: {{ $values.securityContext.readOnlyRootFilesystem }}
          capabilities: {drop: [ALL]}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
          {{- include "ray-pd-llm.cacheMount" .root | nindent 10 }}
    volumes:
      - {name: tmp, emptyDir: {}}
      {{- include "ray-pd-llm.cacheVolume" .root | nindent 6 }}
{{- end -}}
