{{/*
The serve config: what Ray Serve is told to run. Built as data and printed by toYaml, never pasted
together as text; parts of it are handed on as JSON, which is read in a tenth of YAML's time. What both
roles must agree on comes from the model block alone.

Numbers that change while the service runs stand in `deployments`, by the names that the application gives
them: Ray Serve takes those over in place. It builds an application anew, and starts every engine again,
when anything in `args` differs (Ray 2.58, serve/_private/deploy_utils.py, get_app_code_version).
*/}}
{{- define "ray-pd-llm.serveConfig" -}}
{{- $args := dict -}}
{{- $deployments := list -}}
{{- /* With direct streaming there is no ingress, and Ray refuses a word about one. */ -}}
{{- if not .Values.endpoint.directStreaming -}}
  {{- /* The name is Ray's own ingress's, whichever answers. */ -}}
  {{- $_ := set $args "ingress_deployment_config" (dict "name" "OpenAiIngress" "num_replicas" 1) -}}
  {{- $ingress := dict
    "name" "OpenAiIngress"
    "num_replicas" .Values.endpoint.replicas
    "max_ongoing_requests" .Values.endpoint.maxOngoingRequests
  -}}
  {{- if .Values.endpoint.guard.enabled -}}
    {{- $_ := set $args "ingress_cls_config" (dict "ingress_cls" "endpoint_guard.ray_ingress:GuardedIngress") -}}
    {{- $_ := set $ingress "user_config" (include "ray-pd-llm.guardSettings" . | fromYaml) -}}
  {{- end -}}
  {{- $deployments = append $deployments $ingress -}}
{{- end -}}
{{- range include "ray-pd-llm.roles" . | fromJsonArray -}}
  {{- $scope := dict "root" $ "name" . -}}
  {{- $config := include "ray-pd-llm.llmConfig" $scope | fromJson -}}
  {{- if eq $.Values.topology.mode "disaggregated" -}}
    {{- $_ := set $args (printf "%s_config" .) $config -}}
  {{- else -}}
    {{- $_ := set $args "llm_configs" (list $config) -}}
  {{- end -}}
  {{- $deployments = append $deployments (include "ray-pd-llm.deployment" $scope | fromJson) -}}
{{- end -}}
{{- dict "applications" (list (dict
  "name" "llm"
  "route_prefix" .Values.endpoint.routePrefix
  "import_path" (eq .Values.topology.mode "disaggregated" | ternary "ray.serve.llm:build_pd_openai_app" "ray.serve.llm:build_openai_app")
  "args" $args
  "deployments" $deployments
)) | toYaml -}}
{{- end -}}

{{/*
What may change of one role's deployment in place, as JSON: (dict "root" $ "name" "prefill").
The name is made by Ray (Ray 2.58, llm/_internal/serve/core/server/builder.py).
*/}}
{{- define "ray-pd-llm.deployment" -}}
{{- $role := index .root.Values .name -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}
{{- $class := get (dict "prefill" "Prefill" "decode" "Decode" "engine" "LLMServer") .name -}}
{{- $deployment := dict
  "name" (printf "%s:%s" $class (.root.Values.model.id | replace "/" "--" | replace "." "_"))
  "max_ongoing_requests" $role.maxOngoingRequests
-}}
{{- if $facts.autoscaling -}}
  {{- $_ := set $deployment "autoscaling_config" (dict
    "min_replicas" $role.autoscaling.minReplicas
    "max_replicas" $role.autoscaling.maxReplicas
    "target_ongoing_requests" $role.autoscaling.targetOngoingRequests
    "upscale_delay_s" $role.autoscaling.upscaleDelaySeconds
    "downscale_delay_s" $role.autoscaling.downscaleDelaySeconds
  ) -}}
{{- else -}}
  {{- $_ := set $deployment "num_replicas" $role.replicas -}}
{{- end -}}
{{- toJson $deployment -}}
{{- end -}}

{{/* One role's LLMConfig as JSON: (dict "root" $ "name" "prefill"). */}}
{{- define "ray-pd-llm.llmConfig" -}}
{{- $values := .root.Values -}}
{{- $role := index $values .name -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}

{{- /* Each worker asks for its role's own resource, which only this role's group announces. */ -}}
{{- $bundle := dict "CPU" 1 .name 1 -}}
{{- if eq $values.runtime.device "cuda" -}}{{- $_ := set $bundle "GPU" 1 -}}{{- end -}}

{{- /* Without a number Ray Serve LLM scales by itself. */ -}}
{{- $deployment := $facts.autoscaling | ternary dict (dict "num_replicas" 1) -}}

{{- $config := dict
  "model_loading_config" (dict "model_id" $values.model.id "model_source" $values.model.source)
  "engine_kwargs" (include "ray-pd-llm.engineKwargs" . | fromJson)
  "placement_group_config" (dict
    "bundle_per_worker" $bundle
    "strategy" (gt (int $facts.podsPerReplica) 1 | ternary "PACK" "STRICT_PACK"))
  "deployment_config" $deployment
  "log_engine_metrics" true
  "runtime_env" (include "ray-pd-llm.loggingFirst" .root | fromYaml)
-}}
{{- /* The class lies in the guard's folder, which a PYTHONPATH of one's own may hide where no guard is (RPD188). */ -}}
{{- $hidden := and (not $values.endpoint.guard.enabled) (or (hasKey $values.model.env "PYTHONPATH") (hasKey $role.env "PYTHONPATH")) -}}
{{- if not (or $hidden (contains "://" $values.model.source)) -}}
  {{- $_ := set $config "callback_config" (dict "callback_class" "endpoint_guard.ray_engine:NoDownload") -}}
{{- end -}}
{{- if eq $values.topology.mode "disaggregated" -}}
  {{- $experimental := dict "NIXL_SIDE_CHANNEL_PORT_BASE" (index $values.transport.ports .name) -}}
  {{- /* The decode deployment holds the handle to prefill, so it makes the handshake. */ -}}
  {{- if and $values.transport.prewarm (eq .name "decode") -}}
    {{- $_ := set $experimental "_prewarm_prefill_decode" true -}}
  {{- end -}}
  {{- $_ := set $config "experimental_configs" $experimental -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/*
vLLM and NIXL set up Python's logging when they are first used, and that closes the log file of the Ray Serve
replica around them. Such a replica logs no more, and when the head starts again, Serve's controller cannot
take it over but replaces it, so that the model is loaded anew (Ray 2.58, serve/_private/logging_utils.py,
get_component_logger_file_path). So Ray has them do it before Serve opens the file: it imports and calls what
the variable names when a process starts. What is called here does no more than that.

The hook by its proper name does nothing for an actor. It is there because Ray Serve LLM writes one of its own
into that place, and because an engine on GPUs enters the cluster with both of its replica, where Ray refuses two
that differ (_private/runtime_env/setup_hook.py, _check_setup_hook_consistency).
*/}}
{{- define "ray-pd-llm.loggingFirst" -}}
{{- $hook := eq .Values.topology.mode "disaggregated" | ternary "vllm.distributed.nixl_utils.nixl_agent_config" "vllm.logger._configure_vllm_root_logger" -}}
worker_process_setup_hook: {{ $hook }}
env_vars:
  __RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR: {{ $hook }}
{{- end -}}

{{/* One role's vLLM engine arguments as JSON. */}}
{{- define "ray-pd-llm.engineKwargs" -}}
{{- $values := .root.Values -}}
{{- $model := $values.model -}}
{{- $role := index $values .name -}}
{{- $kwargs := dict
  "max_model_len" $model.maxModelLen
  "dtype" $model.dtype
  "tensor_parallel_size" $role.parallelism.tensor
  "pipeline_parallel_size" $role.parallelism.pipeline
  "kv_cache_dtype" $model.kvCacheDtype
  "trust_remote_code" $model.trustRemoteCode
  "load_format" $model.loadFormat
-}}
{{- range $argument, $value := dict
  "revision" $model.revision
  "quantization" $model.quantization
  "block_size" (include "ray-pd-llm.blockSize" .root | int)
  "max_num_seqs" $role.maxNumSeqs
  "max_num_batched_tokens" $role.maxNumBatchedTokens
-}}
  {{- if $value -}}{{- $_ := set $kwargs $argument $value -}}{{- end -}}
{{- end -}}
{{- with $model.toolCallParser -}}
  {{- $_ := set $kwargs "enable_auto_tool_choice" true -}}
  {{- $_ := set $kwargs "tool_call_parser" . -}}
{{- end -}}
{{- with $model.reasoningParser -}}{{- $_ := set $kwargs "reasoning_parser" . -}}{{- end -}}
{{- /* The engine that writes an answer tells its times, by which the guard tells where the time went. Older
       versions of vLLM have no such argument. */ -}}
{{- if and $values.endpoint.guard.enabled (ne .name "prefill") (semverCompare ">=0.25.0-0" ($values.image.vllmVersion | default "0.25.0")) -}}
  {{- $_ := set $kwargs "enable_per_request_metrics" true -}}
  {{- if eq .name "engine" -}}{{- $_ := set $kwargs "enable_prompt_tokens_details" true -}}{{- end -}}
{{- end -}}
{{- if eq $values.runtime.device "cuda" -}}
  {{- $_ := set $kwargs "gpu_memory_utilization" $role.gpuMemoryUtilization -}}
{{- end -}}
{{- if eq $values.topology.mode "disaggregated" -}}
  {{- $_ := set $kwargs "kv_transfer_config" (include "ray-pd-llm.kvTransferConfig" . | fromJson) -}}
  {{- if eq (include "ray-pd-llm.modelKind" .root) "hybrid" -}}
    {{- /* A hybrid model cannot start with a KV connector unless the manager is on. */ -}}
    {{- $_ := set $kwargs "disable_hybrid_kv_cache_manager" false -}}
  {{- end -}}
{{- end -}}
{{- /* Set one by one: sprig's merge takes false and 0 for missing. */ -}}
{{- range list $model.engineArgs $role.engineArgs -}}
  {{- range $argument, $value := . -}}{{- $_ := set $kwargs $argument $value -}}{{- end -}}
{{- end -}}
{{- toJson $kwargs -}}
{{- end -}}

{{/* NIXL's side of one role, as JSON. The backend is always written: without it NIXL takes UCX in silence. */}}
{{- define "ray-pd-llm.kvTransferConfig" -}}
{{- $transport := .root.Values.transport -}}
{{- $extra := dict
  "backends" (list (eq $transport.fabric "efa" | ternary "LIBFABRIC" "UCX"))
  "kv_lease_duration" $transport.leaseSeconds
  "num_threads" $transport.threads
-}}
{{- range $key, $value := $transport.extraConfig -}}{{- $_ := set $extra $key $value -}}{{- end -}}
{{- $config := dict
  "kv_connector" "NixlConnector"
  "kv_role" (eq .name "prefill" | ternary "kv_producer" "kv_consumer")
  "kv_load_failure_policy" $transport.loadFailurePolicy
  "kv_connector_extra_config" $extra
-}}
{{- if ne $transport.bufferDevice "auto" -}}
  {{- $_ := set $config "kv_buffer_device" $transport.bufferDevice -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}
