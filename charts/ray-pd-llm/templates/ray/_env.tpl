{{/*
Environment of a Ray container, as a list sorted by name: what the chart sets, over it model.env (for
engines), over it the role's or head's own env. A null removes a variable. A name is printed once.
*/}}
{{- define "ray-pd-llm.env" -}}
{{- $values := .root.Values -}}
{{- $env := dict
  "HOME" "/tmp"
  "PYTHONPATH" (include "ray-pd-llm.guardFolder" .root)
  "USER" "ray"
  "RAY_USAGE_STATS_ENABLED" "0"
-}}
{{- if $values.endpoint.directStreaming -}}
  {{- /* All pods: the head builds the application by the first, and each has a proxy by the second. */ -}}
  {{- $_ := set $env "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING" "1" -}}
  {{- $_ := set $env "RAY_SERVE_ENABLE_HA_PROXY" "1" -}}
  {{- /* HAProxy ends at once where it does not get two and a half file handles for each connection that it may
         have: 50,036 by Ray's 20,000, and containers may be allowed fewer. */ -}}
  {{- $_ := set $env "RAY_SERVE_HAPROXY_MAXCONN" "4096" -}}
  {{- if and $values.endpoint.guard.enabled (ne .component "head") -}}
    {{- $_ := set $env "RAYLLM_VLLM_ENGINE_CLS" "endpoint_guard.ray_direct:GuardedEngine" -}}
  {{- end -}}
{{- end -}}
{{- if $values.endpoint.guard.apiKeys.existingSecret -}}
  {{- $_ := set $env "ENDPOINT_API_KEYS" (printf "%s/api-keys" (include "ray-pd-llm.guardFolder" .root)) -}}
{{- end -}}
{{- $layers := list .settings.env -}}
{{- if ne .component "head" -}}
  {{- $layers = list (include "ray-pd-llm.engineEnv" . | fromYaml) $values.model.env .settings.env -}}
{{- end -}}
{{- range $layers -}}
  {{- range $name, $value := . -}}{{- $_ := set $env $name $value -}}{{- end -}}
{{- end -}}
{{- $list := list -}}
{{- range $name, $value := $env -}}
  {{- if kindIs "map" $value -}}
    {{- $list = append $list (merge (dict "name" $name) $value) -}}
  {{- else if kindIs "string" $value -}}
    {{- $list = append $list (dict "name" $name "value" $value) -}}
  {{- else if not (kindIs "invalid" $value) -}}
    {{- /* toJson prints 1000000 where a template would print 1e+06. */ -}}
    {{- $list = append $list (dict "name" $name "value" (toJson $value)) -}}
  {{- end -}}
{{- end -}}
{{- toYaml $list -}}
{{- end -}}

{{/* What the chart sets in an engine's container, as a YAML map. */}}
{{- define "ray-pd-llm.engineEnv" -}}
{{- $values := .root.Values -}}
{{- $cache := $values.cache.mountPath -}}
HF_HOME: {{ $cache }}/huggingface
VLLM_CACHE_ROOT: {{ $cache }}/vllm
TRITON_CACHE_DIR: {{ $cache }}/triton
TORCHINDUCTOR_CACHE_DIR: {{ $cache }}/torchinductor
FLASHINFER_WORKSPACE_BASE: {{ $cache }}/flashinfer
VLLM_NO_USAGE_STATS: "1"
VLLM_HOST_IP:
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- if $values.huggingface.offline }}
HF_HUB_OFFLINE: "1"
{{- end }}
{{- with include "ray-pd-llm.hfTokenRef" .root }}
HF_TOKEN:
  {{- . | nindent 2 }}
{{- end }}
{{- if eq (include "ray-pd-llm.modelKind" .root) "hybrid" }}
# Both sides must lay the state of Mamba and DeltaNet layers out alike, so that it can be moved.
VLLM_SSM_CONV_STATE_LAYOUT: DS
{{- end }}
{{- if and (eq $values.topology.mode "disaggregated") (eq $values.transport.fabric "tcp") (eq $values.runtime.device "cuda") (not $values.placement.rolesApart) }}
# The roles may meet on one host, where UCX reads the other's GPU memory itself only when it is told to.
{{- include "ray-pd-llm.read" (list .root "transport") }}
{{- range $name, $value := .root.Tables.transport.paths.sameHostPcie.env }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- if .facts.efaInterfaces }}
FI_PROVIDER: efa
{{- if (include "ray-pd-llm.instance" (dict "root" .root "type" .settings.instanceType) | fromJson | dig "efa" "rdmaRead" false) }}
FI_EFA_USE_DEVICE_RDMA: "1"
{{- end }}
{{- if not $values.placement.rolesApart }}
# libfabric's shared memory path between two pods of one node crashes or hangs.
FI_EFA_ENABLE_SHM_TRANSFER: "0"
{{- end }}
{{- end }}
{{- end -}}
