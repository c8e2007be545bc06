{{/*
The Job that fills a role's cache before an engine holds a GPU: (dict "root" $ "name" "prefill"). A
claim is shared, so one download, under the first role's name, fills it. A host path is filled on every
node of each role: one pod per node, kept apart by host name. A Job's template cannot be changed, so
what decides the download is part of its name.
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
{{- $wanted := printf "%s@%s" $values.model.source $values.model.revision | sha256sum | trunc 8 -}}
{{- $suffix := printf "prefetch-%s-%s" .name $wanted -}}
{{- $component := printf "prefetch-%s" .name -}}
{{- $scope := dict "root" .root "component" .name "settings" $settings "facts" $facts -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "ray-pd-llm.childName" (dict "root" .root "suffix" $suffix) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ray-pd-llm.labels" (dict "root" .root "component" $component) | nindent 4 }}
  {{- with include "ray-pd-llm.annotations" (dict "root" .root) }}{{ . | nindent 2 }}{{- end }}
spec:
  completions: {{ $pods }}
  parallelism: {{ $pods }}
  backoffLimit: {{ int $values.cache.prefetch.backoffLimit }}
  template:
    metadata:
      labels:
        {{- include "ray-pd-llm.selector" (dict "root" .root "component" $component) | nindent 8 }}
    spec:
      restartPolicy: OnFailure
      serviceAccountName: {{ include "ray-pd-llm.serviceAccountName" .root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      securityContext:
        {{- include "ray-pd-llm.podSecurityContext" $scope | nindent 8 }}
      {{- with $values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with include "ray-pd-llm.nodeSelector" $scope | trim }}
      nodeSelector:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with $settings.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if not $shared }}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels:
                  {{- include "ray-pd-llm.selector" (dict "root" .root "component" $component) | nindent 18 }}
      {{- end }}
      {{- with include "ray-pd-llm.cacheOwner" $scope }}
      initContainers:
        {{- . | nindent 8 }}
      {{- end }}
      containers:
        - name: prefetch
          image: {{ include "ray-pd-llm.image" .root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command:
            - python3
            - -c
            - |
              {{- .root.Files.Get "files/prefetch.py" | nindent 14 }}
            - {{ $values.model.source | quote }}
            - {{ $values.model.revision | quote }}
          env:
            - {name: HOME, value: /tmp}
            - {name: HF_HOME, value: {{ $values.cache.mountPath }}/huggingface}
            {{- with include "ray-pd-llm.hfTokenRef" .root }}
            - name: HF_TOKEN
              {{- . | nindent 14 }}
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
            {{- include "ray-pd-llm.cacheMount" .root | nindent 12 }}
      volumes:
        - {name: tmp, emptyDir: {}}
        {{- include "ray-pd-llm.cacheVolume" .root | nindent 8 }}
{{- end -}}
{{- end -}}
