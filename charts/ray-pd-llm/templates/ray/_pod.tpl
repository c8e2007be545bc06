{{/*
Pods. One template serves the head and every role:

    (dict "root" $ "component" "prefill" "settings" .Values.prefill "facts" facts)

`settings` is the block of values, `facts` the role's derived facts (an empty dict for the head).
Nothing in here may depend on the chart's version or on a checksum: KubeRay takes every change of a
pod template for a new cluster.
*/}}
{{- define "ray-pd-llm.podTemplate" -}}
{{- $values := .root.Values -}}
{{- $isHead := eq .component "head" -}}
metadata:
  labels:
    {{- $labels := include "ray-pd-llm.selector" . | fromYaml -}}
    {{- include "ray-pd-llm.map" (merge $labels .settings.podLabels) | nindent 4 }}
  {{- with include "ray-pd-llm.map" .settings.podAnnotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ray-pd-llm.serviceAccountName" .root }}
  # Only the autoscaler, a sidecar of the head, talks to the API server.
  automountServiceAccountToken: {{ and $isHead (eq (include "ray-pd-llm.autoscaling" .root) "true") }}
  # Variables of Services would clash with those of vLLM (VLLM_PORT).
  enableServiceLinks: false
  securityContext:
    {{- include "ray-pd-llm.podSecurityContext" . | nindent 4 }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .settings.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if not $isHead }}
  terminationGracePeriodSeconds: {{ int64 .settings.terminationGracePeriodSeconds }}
  {{- end }}
  {{- with include "ray-pd-llm.nodeSelector" . | trim }}
  nodeSelector:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .settings.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "ray-pd-llm.affinity" . | trim }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- $init := $isHead | ternary "" (include "ray-pd-llm.cacheOwner" .) }}
  {{- if or $init .settings.initContainers }}
  initContainers:
    {{- with $init }}{{ . | nindent 4 }}{{ end }}
    {{- with .settings.initContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- end }}
  containers:
    - name: {{ $isHead | ternary "ray-head" "ray-worker" }}
      image: {{ include "ray-pd-llm.image" .root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      ports:
        {{- include "ray-pd-llm.containerPorts" . | nindent 8 }}
      env:
        {{- include "ray-pd-llm.env" . | nindent 8 }}
      resources:
        {{- include "ray-pd-llm.resources" . | nindent 8 }}
      securityContext:
        {{- include "ray-pd-llm.containerSecurityContext" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        {{- include "ray-pd-llm.guardMounts" .root | nindent 8 }}
        {{- if not $isHead }}
        {{- include "ray-pd-llm.cacheMount" .root | nindent 8 }}
        {{- end }}
        {{- with .settings.volumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
    {{- with .settings.sidecars }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    - {name: tmp, emptyDir: {}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .settings.sharedMemory }}}}
    {{- include "ray-pd-llm.guardVolumes" .root | nindent 4 }}
    {{- if not $isHead }}
    {{- include "ray-pd-llm.cacheVolume" .root | nindent 4 }}
    {{- end }}
    {{- with .settings.volumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end -}}

{{- define "ray-pd-llm.containerPorts" -}}
{{- $ports := .root.Tables.ports -}}
{{- if eq .component "head" -}}
- {name: gcs-server, containerPort: {{ int $ports.head.gcs }}}
- {name: dashboard, containerPort: {{ int $ports.head.dashboard }}}
- {name: client, containerPort: {{ int $ports.head.client }}}
{{ end -}}
- {name: metrics, containerPort: {{ int $ports.common.metrics }}}
- {name: serve, containerPort: {{ int $ports.common.serve }}}
{{- end -}}

{{/*
Resources. CPU has no limit: throttling an engine's host threads stalls its GPU. Devices are limits
and requests alike, as extended resources must be.
*/}}
{{- define "ray-pd-llm.resources" -}}
{{- $both := dict "memory" .settings.resources.memory -}}
{{- with .settings.resources.ephemeralStorage -}}{{- $_ := set $both "ephemeral-storage" . -}}{{- end -}}
{{- if ne .component "head" -}}
  {{- if eq .root.Values.runtime.device "cuda" -}}
    {{- $_ := set $both "nvidia.com/gpu" (int .facts.devicesPerPod) -}}
  {{- end -}}
  {{- if .facts.efaInterfaces -}}
    {{- $_ := set $both "vpc.amazonaws.com/efa" (int .facts.efaInterfaces) -}}
    {{- with .root.Values.transport.efa.hugepages2Mi -}}{{- $_ := set $both "hugepages-2Mi" . -}}{{- end -}}
  {{- end -}}
{{- end -}}
limits:
  {{- toYaml $both | nindent 2 }}
requests:
  {{- toYaml (merge (dict "cpu" .settings.resources.cpu) $both) | nindent 2 }}
{{- end -}}

{{/*
rayStartParams as a map of strings. Ports are fixed so that none meets a NIXL side channel.
*/}}
{{- define "ray-pd-llm.rayStartParams" -}}
{{- $ports := .root.Tables.ports -}}
{{- $params := dict
  "object-store-memory" (include "ray-pd-llm.bytes" .settings.objectStoreMemory)
  "metrics-export-port" ($ports.common.metrics | int | toString)
  "node-manager-port" (index $ports.common "node-manager" | int | toString)
  "object-manager-port" (index $ports.common "object-manager" | int | toString)
  "runtime-env-agent-port" (index $ports.common "runtime-env-agent" | int | toString)
  "dashboard-agent-grpc-port" (index $ports.common "dashboard-agent-grpc" | int | toString)
  "dashboard-agent-listen-port" (index $ports.common "dashboard-agent-http" | int | toString)
  "min-worker-port" ($ports.workers.first | int | toString)
  "max-worker-port" ($ports.workers.last | int | toString)
-}}
{{- if eq .component "head" -}}
  {{- /* No engine and no ingress replica is ever put on the head. */ -}}
  {{- $_ := set $params "num-cpus" "0" -}}
  {{- $_ := set $params "dashboard-host" "0.0.0.0" -}}
{{- else -}}
  {{- /* JSON in quotes of its own: KubeRay puts it on a shell's command line, and Ray's autoscaler
         takes the quotes off again. */ -}}
  {{- $_ := set $params "resources" (printf `"{\"%s\": %d}"` .component (int .facts.devicesPerPod)) -}}
{{- end -}}
{{- toYaml $params -}}
{{- end -}}
