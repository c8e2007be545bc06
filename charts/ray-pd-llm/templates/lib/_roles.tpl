{{/*
Roles. One engine is a replica of a Ray Serve deployment. In mode `disaggregated` the roles are
prefill and decode, else there is the one role `engine`. Everything that follows from a role's values
is worked out here once.
*/}}

{{/* The active roles as a JSON list of names. */}}
{{- define "ray-pd-llm.roles" -}}
{{- eq .Values.topology.mode "disaggregated" | ternary (list "prefill" "decode") (list "engine") | toJson -}}
{{- end -}}

{{/*
A role's derived facts as JSON: (dict "root" $ "name" "prefill").
  devices          GPUs (or CPU engines) of one replica: tensor x pipeline
  podsPerReplica   pods that one replica is spread over
  devicesPerPod    devices / podsPerReplica, rounded up
  minReplicas, maxReplicas   engines; equal without autoscaling
  efaInterfaces    EFA interfaces of each pod; 0 without EFA
  sideChannel      first and last port of NIXL's side channels, one for each device of each replica;
                   empty where no KV is transferred
*/}}
{{- define "ray-pd-llm.role" -}}
{{- $values := .root.Values -}}
{{- $role := index $values .name -}}
{{- $devices := mul $role.parallelism.tensor $role.parallelism.pipeline -}}
{{- $pods := int $role.parallelism.nodes -}}
{{- $auto := $role.autoscaling -}}
{{- $interfaces := 0 -}}
{{- if eq (include "ray-pd-llm.efa" .root) "true" -}}
  {{- $interfaces = $role.efaInterfaces | default $values.transport.efa.interfacesPerPod -}}
{{- end -}}
{{- $sideChannel := dict -}}
{{- if eq $values.topology.mode "disaggregated" -}}
  {{- $first := index $values.transport.ports .name | int -}}
  {{- $replicas := $auto.enabled | ternary $auto.maxReplicas $role.replicas | int -}}
  {{- $sideChannel = dict "first" $first "last" (sub (add $first (mul $replicas $devices)) 1) -}}
{{- end -}}
{{- dict
  "name" .name
  "devices" $devices
  "podsPerReplica" $pods
  "devicesPerPod" (div (add $devices $pods -1) $pods)
  "autoscaling" $auto.enabled
  "minReplicas" ($auto.enabled | ternary $auto.minReplicas $role.replicas | int)
  "maxReplicas" ($auto.enabled | ternary $auto.maxReplicas $role.replicas | int)
  "efaInterfaces" (int $interfaces)
  "sideChannel" $sideChannel
| toJson -}}
{{- end -}}

{{/* "true" when engine pods have EFA interfaces. One aggregated engine per pod has nobody to talk to. */}}
{{- define "ray-pd-llm.efa" -}}
{{- and (eq .Values.transport.fabric "efa") (ne .Values.topology.mode "aggregated") -}}
{{- end -}}

{{/* "true" when any active role is scaled by Ray. */}}
{{- define "ray-pd-llm.autoscaling" -}}
{{- $any := false -}}
{{- range include "ray-pd-llm.roles" . | fromJsonArray -}}
  {{- $any = or $any (index $.Values .).autoscaling.enabled -}}
{{- end -}}
{{- $any -}}
{{- end -}}

{{/* dense, hybrid, or unknown: what model.kind says, else what files/models.yaml knows of the source. */}}
{{- define "ray-pd-llm.modelKind" -}}
{{- $kind := .Values.model.kind -}}
{{- if eq $kind "auto" -}}
  {{- $kind = (include "ray-pd-llm.model" . | fromJson).kind | default "unknown" -}}
{{- end -}}
{{- $kind -}}
{{- end -}}

{{/* Tokens of a KV block; 0 where vLLM chooses. */}}
{{- define "ray-pd-llm.blockSize" -}}
{{- $size := .Values.model.blockSize -}}
{{- if eq (toString $size) "auto" -}}
  {{- $kind := include "ray-pd-llm.modelKind" . -}}
  {{- $size = 0 -}}
  {{- if eq .Values.topology.mode "disaggregated" -}}
    {{- include "ray-pd-llm.read" (list . "transport") -}}
    {{- $size = dig "blockSize" $kind "tokens" 0 .Tables.transport -}}
  {{- end -}}
{{- end -}}
{{- int $size -}}
{{- end -}}

{{/* The model's shape as JSON; an empty object for a model that is not known. */}}
{{- define "ray-pd-llm.model" -}}
{{- index .Tables.models .Values.model.source | default dict | toJson -}}
{{- end -}}
