{{/*
Rules that span several values. Each broken one becomes a line

    [RPD1xx] path of the value: what is wrong with it. Instead: what to write

and all of them are reported in one failure. The codes are explained in docs/rules/. A rule here is
about what can be decided from values and files alone; what a schema can say is in the schema.

Lines are collected in a list that is passed along: (dict "root" $ "problems" (list)), and grown in
place through `set`.
*/}}
{{- define "ray-pd-llm.validate" -}}
{{- $scope := dict "root" . "problems" list -}}
{{- include "ray-pd-llm.validate.model" $scope -}}
{{- include "ray-pd-llm.validate.transport" $scope -}}
{{- include "ray-pd-llm.validate.head" $scope -}}
{{- include "ray-pd-llm.validate.cache" $scope -}}
{{- include "ray-pd-llm.validate.access" $scope -}}
{{- include "ray-pd-llm.validate.endpoint" $scope -}}
{{- range include "ray-pd-llm.roles" . | fromJsonArray -}}
  {{- include "ray-pd-llm.validate.role" (dict "root" $ "name" . "scope" $scope) -}}
{{- end -}}
{{- with $scope.problems -}}
  {{- fail (printf "\n\nThe values cannot work (%d %s):\n\n%s\n" (len .) (eq (len .) 1 | ternary "problem" "problems") (join "\n" .)) -}}
{{- end -}}
{{- end -}}

{{/* problem: (list scope code path reason instead) */}}
{{- define "ray-pd-llm.problem" -}}
{{- $scope := index . 0 -}}
{{- $line := printf "[%s] %s: %s. Instead: %s" (index . 1) (index . 2) (index . 3) (index . 4) -}}
{{- /* Both roles may come upon the same value. */ -}}
{{- $_ := set $scope "problems" (append $scope.problems $line | uniq) -}}
{{- end -}}

{{- define "ray-pd-llm.validate.model" -}}
{{- $values := .root.Values -}}
{{- $model := $values.model -}}
{{- $shape := include "ray-pd-llm.model" .root | fromJson -}}
{{- $kind := include "ray-pd-llm.modelKind" .root -}}
{{- $disaggregated := eq $values.topology.mode "disaggregated" -}}

{{- if and $disaggregated (eq $kind "unknown") -}}
  {{- include "ray-pd-llm.problem" (list . "RPD110" "model.kind" (printf "nothing is known about %s, and a hybrid model needs other settings than a dense one" $model.source) "dense for attention in every layer, hybrid for Gated DeltaNet or Mamba layers (the model's config.json has layer_types)") -}}
{{- end -}}
{{- if and $shape.kind (ne $model.kind "auto") (ne $model.kind $shape.kind) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD111" "model.kind" (printf "%s is a %s model, not %s" $model.source $shape.kind $model.kind) "auto") -}}
{{- end -}}
{{- if and $shape.maxModelLen (gt (int64 $model.maxModelLen) (int64 $shape.maxModelLen)) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD112" "model.maxModelLen" (printf "%d is more than the %d tokens that %s knows" (int64 $model.maxModelLen) (int64 $shape.maxModelLen) $model.source) (printf "%d or less" (int64 $shape.maxModelLen))) -}}
{{- end -}}
{{- if eq $kind "hybrid" -}}
  {{- if and $disaggregated (eq $values.transport.bufferDevice "cpu") -}}
    {{- include "ray-pd-llm.problem" (list . "RPD113" "transport.bufferDevice" "a hybrid model's state cannot be staged in host memory" "auto") -}}
  {{- end -}}
  {{- range $owner := list "model" "prefill" "decode" -}}
    {{- if and $disaggregated (eq true (index $values $owner "engineArgs" "disable_hybrid_kv_cache_manager")) -}}
      {{- include "ray-pd-llm.problem" (list $ "RPD114" (printf "%s.engineArgs.disable_hybrid_kv_cache_manager" $owner) "a hybrid model cannot start without the hybrid KV cache manager" "leave it out") -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and (hasPrefix "/" $model.source) (eq $values.runtime.device "cuda") -}}
  {{- range include "ray-pd-llm.roles" .root | fromJsonArray -}}
    {{- $mounts := list $values.cache.mountPath -}}
    {{- range (index $values .).volumeMounts -}}{{- $mounts = append $mounts .mountPath -}}{{- end -}}
    {{- $under := false -}}
    {{- range $mounts -}}{{- $under = or $under (hasPrefix (printf "%s/" .) $model.source) -}}{{- end -}}
    {{- if not $under -}}
      {{- include "ray-pd-llm.problem" (list $ "RPD115" "model.source" (printf "%s is under no volume of the %s pods (%s)" $model.source . (join ", " $mounts)) (printf "a path under %s, or mount a volume with %s.volumes and %s.volumeMounts" $values.cache.mountPath . .)) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- include "ray-pd-llm.validate.owned" (list . "env" "model.env" $model.env) -}}
{{- include "ray-pd-llm.validate.owned" (list . "engineArgs" "model.engineArgs" $model.engineArgs) -}}
{{- end -}}

{{/* Names that the chart owns: (list scope kind path map), kind being a block of files/owned.yaml. Most
values set none of their own, and then that table is not read at all. */}}
{{- define "ray-pd-llm.validate.owned" -}}
{{- $scope := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $path := index . 2 -}}
{{- $code := get (dict "env" "RPD120" "engineArgs" "RPD121" "extraConfig" "RPD122") $kind -}}
{{- with index . 3 -}}
  {{- include "ray-pd-llm.read" (list $scope.root "owned") -}}
  {{- $owned := index $scope.root.Tables.owned $kind -}}
  {{- range $name, $value := . -}}
    {{- with index $owned $name -}}
      {{- include "ray-pd-llm.problem" (list $scope $code (printf "%s.%s" $path $name) .why .instead) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.validate.transport" -}}
{{- $values := .root.Values -}}
{{- $transport := $values.transport -}}
{{- include "ray-pd-llm.validate.owned" (list . "extraConfig" "transport.extraConfig" $transport.extraConfig) -}}
{{- if eq (include "ray-pd-llm.efa" .root) "true" -}}
  {{- if eq $values.runtime.device "cpu" -}}
    {{- include "ray-pd-llm.problem" (list . "RPD130" "transport.fabric" "efa needs CUDA engines" "transport.fabric: tcp, or runtime.device: cuda") -}}
  {{- end -}}
  {{- if not $values.placement.sameZone -}}
    {{- include "ray-pd-llm.problem" (list . "RPD131" "placement.sameZone" "EFA works inside one availability zone only" "true, or transport.fabric: tcp") -}}
  {{- end -}}
{{- end -}}
{{- if and (eq $transport.bufferDevice "cuda") (eq $values.runtime.device "cpu") -}}
  {{- include "ray-pd-llm.problem" (list . "RPD132" "transport.bufferDevice" "CPU engines have no CUDA memory" "auto") -}}
{{- end -}}
{{- if eq $values.topology.mode "disaggregated" -}}
  {{- $prefill := include "ray-pd-llm.role" (dict "root" .root "name" "prefill") | fromJson -}}
  {{- $decode := include "ray-pd-llm.role" (dict "root" .root "name" "decode") | fromJson -}}
  {{- $p := $prefill.sideChannel -}}
  {{- $d := $decode.sideChannel -}}
  {{- if and (le (int $p.first) (int $d.last)) (le (int $d.first) (int $p.last)) -}}
    {{- include "ray-pd-llm.problem" (list . "RPD133" "transport.ports" (printf "the side-channel ports of prefill (%d to %d) and decode (%d to %d) overlap" (int $p.first) (int $p.last) (int $d.first) (int $d.last)) (printf "decode: %d or higher" (add $p.last 1))) -}}
  {{- end -}}
  {{- $ports := .root.Tables.ports -}}
  {{- range $role, $range := dict "prefill" $p "decode" $d -}}
    {{- range $name, $port := merge (dict) $ports.head $ports.common (dict "worker" $ports.workers.first) -}}
      {{- $last := eq $name "worker" | ternary $ports.workers.last $port | int -}}
      {{- if and (le (int $port) (int $range.last)) (le (int $range.first) $last) -}}
        {{- include "ray-pd-llm.problem" (list $ "RPD134" (printf "transport.ports.%s" $role) (printf "the side-channel ports %d to %d meet Ray's %s port %d" (int $range.first) (int $range.last) $name (int $port)) "20000 or higher, below 32768") -}}
      {{- end -}}
    {{- end -}}
    {{- if gt (int $range.last) 65535 -}}
      {{- include "ray-pd-llm.problem" (list $ "RPD135" (printf "transport.ports.%s" $role) (printf "its last side-channel port would be %d" (int $range.last)) "a lower port") -}}
    {{- end -}}
  {{- end -}}
  {{- $ptp := int $values.prefill.parallelism.tensor -}}
  {{- $dtp := int $values.decode.parallelism.tensor -}}
  {{- if and (ne (mod $ptp $dtp) 0) (ne (mod $dtp $ptp) 0) -}}
    {{- include "ray-pd-llm.problem" (list . "RPD136" "decode.parallelism.tensor" (printf "KV of %d ranks cannot be split over %d" $ptp $dtp) "tensor parallel sizes of which one divides the other") -}}
  {{- end -}}
  {{- $shape := include "ray-pd-llm.model" .root | fromJson -}}
  {{- if and $shape.kvHeads (ne $shape.kind "hybrid") (gt $ptp $dtp) (gt $ptp (int $shape.kvHeads)) -}}
    {{- include "ray-pd-llm.problem" (list . "RPD137" "prefill.parallelism.tensor" (printf "%d ranks copy the %d KV heads of %s, and vLLM 0.26 cannot move copied heads to a smaller decode (tensor %d)" $ptp (int $shape.kvHeads) $values.model.source $dtp) (printf "prefill.parallelism.tensor %d or less, or not above decode's" (int $shape.kvHeads))) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.validate.head" -}}
{{- $head := .root.Values.head -}}
{{- include "ray-pd-llm.validate.memory" (list . "head" $head) -}}
{{- include "ray-pd-llm.validate.owned" (list . "env" "head.env" $head.env) -}}
{{- include "ray-pd-llm.validate.fits" (dict "scope" . "path" "head" "settings" $head "what" "the head") -}}
{{- end -}}

{{/* Object store < /dev/shm < memory: (list scope path settings). */}}
{{- define "ray-pd-llm.validate.memory" -}}
{{- $scope := index . 0 -}}
{{- $path := index . 1 -}}
{{- $settings := index . 2 -}}
{{- $memory := include "ray-pd-llm.bytes" $settings.resources.memory | int64 -}}
{{- $shared := include "ray-pd-llm.bytes" $settings.sharedMemory | int64 -}}
{{- $store := include "ray-pd-llm.bytes" $settings.objectStoreMemory | int64 -}}
{{- if ge $store $shared -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD140" (printf "%s.objectStoreMemory" $path) (printf "%s does not fit in /dev/shm of %s, and Ray would fall back to a slow disk" $settings.objectStoreMemory $settings.sharedMemory) (printf "less than %s.sharedMemory" $path)) -}}
{{- end -}}
{{- if gt (mul $shared 2) $memory -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD141" (printf "%s.sharedMemory" $path) (printf "%s counts as the pod's memory and takes more than half of its %s, which ends in an out-of-memory kill" $settings.sharedMemory $settings.resources.memory) (printf "at most half of %s.resources.memory" $path)) -}}
{{- end -}}
{{- end -}}

{{/* A pod's CPU and memory against its instance type: (dict scope path settings what). A tenth of the
memory and a quarter of a core are the kubelet's and the daemons'. */}}
{{- define "ray-pd-llm.validate.fits" -}}
{{- $type := .settings.instanceType -}}
{{- $instance := include "ray-pd-llm.instance" (dict "root" .scope.root "type" $type) | fromJson -}}
{{- if $instance -}}
  {{- $memory := include "ray-pd-llm.bytes" .settings.resources.memory | int64 -}}
  {{- $room := div (mul (int64 $instance.memoryGiB) 1073741824 9) 10 -}}
  {{- if gt $memory $room -}}
    {{- include "ray-pd-llm.problem" (list .scope "RPD142" (printf "%s.resources.memory" .path) (printf "%s is more than a %s has to give (%d GiB of %d)" .settings.resources.memory $type (div $room 1073741824) (int $instance.memoryGiB)) (printf "%dGi or less" (div $room 1073741824))) -}}
  {{- end -}}
  {{- $cpu := include "ray-pd-llm.millicores" .settings.resources.cpu | int64 -}}
  {{- if gt $cpu (sub (mul (int64 $instance.vcpu) 1000) 250) -}}
    {{- include "ray-pd-llm.problem" (list .scope "RPD143" (printf "%s.resources.cpu" .path) (printf "%s is more than a %s has to give (%d vCPU less what the node needs itself)" .settings.resources.cpu $type (int $instance.vcpu)) (printf "%d or less" (sub (int $instance.vcpu) 1))) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.validate.role" -}}
{{- $scope := .scope -}}
{{- $name := .name -}}
{{- $values := .root.Values -}}
{{- $role := index $values $name -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}
{{- $mode := $values.topology.mode -}}
{{- include "ray-pd-llm.validate.memory" (list $scope $name $role) -}}
{{- include "ray-pd-llm.validate.owned" (list $scope "env" (printf "%s.env" $name) $role.env) -}}
{{- include "ray-pd-llm.validate.owned" (list $scope "engineArgs" (printf "%s.engineArgs" $name) $role.engineArgs) -}}
{{- include "ray-pd-llm.validate.fits" (dict "scope" $scope "path" $name "settings" $role) -}}

{{- /* CPU that Ray counts: one per device and one for the replica; its ingress share comes on top. */ -}}
{{- $cores := div (include "ray-pd-llm.millicores" $role.resources.cpu | int64) 1000 -}}
{{- $needed := add $facts.devicesPerPod 1 -}}
{{- if lt $cores $needed -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD144" (printf "%s.resources.cpu" $name) (printf "Ray needs %d CPUs in each pod (one per device and one for the replica), and %s gives it %d; the engine would wait for ever" $needed $role.resources.cpu $cores) (printf "%d or more" $needed)) -}}
{{- end -}}

{{- $nodes := int $role.parallelism.nodes -}}
{{- if and (eq $mode "multinode") (lt $nodes 2) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD150" (printf "%s.parallelism.nodes" $name) "mode multinode spreads an engine over at least two nodes" "2 or more, or topology.mode: aggregated") -}}
{{- end -}}
{{- if and (ne $mode "multinode") (gt $nodes 1) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD150" (printf "%s.parallelism.nodes" $name) (printf "mode %s keeps an engine in one pod" $mode) "1, or topology.mode: multinode") -}}
{{- end -}}
{{- if ne (mod $facts.devices $nodes) 0 -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD151" (printf "%s.parallelism.nodes" $name) (printf "tensor x pipeline = %d devices cannot be spread evenly over %d nodes" (int $facts.devices) $nodes) "a divisor of tensor x pipeline") -}}
{{- end -}}
{{- if and (eq $mode "disaggregated") (gt (int $role.parallelism.pipeline) 1) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD152" (printf "%s.parallelism.pipeline" $name) "the NIXL connector that pulls KV knows no pipeline stages in vLLM 0.26" (printf "1, and raise %s.parallelism.tensor" $name)) -}}
{{- end -}}
{{- $shape := include "ray-pd-llm.model" .root | fromJson -}}
{{- with $shape.attentionHeads -}}
  {{- if ne (mod (int .) (int $role.parallelism.tensor)) 0 -}}
    {{- include "ray-pd-llm.problem" (list $scope "RPD153" (printf "%s.parallelism.tensor" $name) (printf "the %d attention heads of %s cannot be split over %d" (int .) $values.model.source (int $role.parallelism.tensor)) "a divisor of the number of heads") -}}
  {{- end -}}
{{- end -}}
{{- if and (eq $values.runtime.device "cpu") (gt (int $facts.devices) 1) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD154" (printf "%s.parallelism" $name) "a CPU engine is one process" "tensor: 1 and pipeline: 1") -}}
{{- end -}}

{{- $auto := $role.autoscaling -}}
{{- if and $auto.enabled (gt (int $auto.minReplicas) (int $auto.maxReplicas)) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD155" (printf "%s.autoscaling.minReplicas" $name) (printf "%d is more than maxReplicas %d" (int $auto.minReplicas) (int $auto.maxReplicas)) (printf "%d or less" (int $auto.maxReplicas))) -}}
{{- end -}}

{{- /* Devices and adapters that the instance type really has. */ -}}
{{- $type := $role.instanceType -}}
{{- $instance := include "ray-pd-llm.instance" (dict "root" .root "type" $type) | fromJson -}}
{{- if and $type (not $instance) -}}
  {{- include "ray-pd-llm.problem" (list $scope "RPD160" (printf "%s.instanceType" $name) (printf "%s is not in files/instances.yaml, so nothing can be checked against it" $type) "a type of that list, or an empty string and a nodeSelector of your own") -}}
{{- end -}}
{{- if $instance -}}
  {{- if and (eq $values.runtime.device "cuda") (gt (int $facts.devicesPerPod) (int $instance.gpu.count)) -}}
    {{- include "ray-pd-llm.problem" (list $scope "RPD161" (printf "%s.parallelism" $name) (printf "a pod needs %d GPUs and a %s has %d" (int $facts.devicesPerPod) $type (int $instance.gpu.count)) "fewer devices per pod, or a larger instance type") -}}
  {{- end -}}
  {{- if and (eq $values.runtime.device "cuda") (eq $role.gpuMemoryUtilization 1.0) -}}
    {{- include "ray-pd-llm.problem" (list $scope "RPD162" (printf "%s.gpuMemoryUtilization" $name) "CUDA itself needs some of the memory" "0.95 or less") -}}
  {{- end -}}
  {{- if $facts.efaInterfaces -}}
    {{- if eq (int $instance.efa.interfaces) 0 -}}
      {{- include "ray-pd-llm.problem" (list $scope "RPD163" (printf "%s.instanceType" $name) (printf "a %s has no EFA" $type) "a type with EFA (of the g6 family from 8xlarge on), or transport.fabric: tcp") -}}
    {{- else if gt (int $facts.efaInterfaces) (int $instance.efa.interfaces) -}}
      {{- include "ray-pd-llm.problem" (list $scope "RPD164" (ne (int $role.efaInterfaces) 0 | ternary (printf "%s.efaInterfaces" $name) "transport.efa.interfacesPerPod") (printf "a %s has %d EFA interfaces, not %d" $type (int $instance.efa.interfaces) (int $facts.efaInterfaces)) (printf "%d or less" (int $instance.efa.interfaces))) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{- /* Volumes and containers of the user must not take the chart's names. */ -}}
{{- range $role.volumes -}}
  {{- if has .name (list "tmp" "shm" "cache" "guard" "api-keys") -}}
    {{- include "ray-pd-llm.problem" (list $scope "RPD165" (printf "%s.volumes" $name) (printf "the name %s is the chart's" .name) "another name") -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.validate.cache" -}}
{{- $values := .root.Values -}}
{{- $cache := $values.cache -}}
{{- $root := eq (include "ray-pd-llm.efa" .root) "true" -}}
{{- $pods := 0 -}}
{{- range include "ray-pd-llm.roles" .root | fromJsonArray -}}
  {{- $facts := include "ray-pd-llm.role" (dict "root" $.root "name" .) | fromJson -}}
  {{- $pods = add $pods (mul $facts.maxReplicas $facts.podsPerReplica) -}}
{{- end -}}
{{- if has $cache.mountPath (list "/tmp" "/dev/shm") -}}
  {{- include "ray-pd-llm.problem" (list . "RPD170" "cache.mountPath" (printf "%s is taken by a volume that is lost with the pod" $cache.mountPath) "/cache") -}}
{{- end -}}
{{- if and (eq $cache.type "persistentVolumeClaim") (not $cache.persistentVolumeClaim.existingClaim) (not (has "ReadWriteMany" $cache.persistentVolumeClaim.accessModes)) (gt (int $pods) 1) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD171" "cache.persistentVolumeClaim.accessModes" (printf "%d pods on several nodes cannot mount one ReadWriteOnce volume" (int $pods)) "[ReadWriteMany] with a storage class that has it (EFS, FSx), or cache.type: hostPath") -}}
{{- end -}}
{{- if and (eq $cache.type "hostPath") (not $root) (not $cache.hostPath.setOwner) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD172" "cache.hostPath.setOwner" (printf "engines run as user %d here, and a host folder belongs to root" (int64 $values.securityContext.runAsUser)) "true, which adds an init container that hands the folder over, or another cache.type") -}}
{{- end -}}
{{- if $cache.prefetch.enabled -}}
  {{- if eq $cache.type "emptyDir" -}}
    {{- include "ray-pd-llm.problem" (list . "RPD173" "cache.prefetch.enabled" "an emptyDir is not shared with the Job that fills it" "false, or cache.type: hostPath or persistentVolumeClaim") -}}
  {{- end -}}
  {{- if or (hasPrefix "/" $values.model.source) (contains "://" $values.model.source) -}}
    {{- include "ray-pd-llm.problem" (list . "RPD174" "cache.prefetch.enabled" (printf "only Hugging Face repositories are fetched, and model.source is %s" $values.model.source) "false") -}}
  {{- end -}}
  {{- if $values.huggingface.offline -}}
    {{- include "ray-pd-llm.problem" (list . "RPD175" "cache.prefetch.enabled" "huggingface.offline forbids the download" "false") -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* The ingress replicas live on CPUs that the engines leave over; the head has none to offer. */}}
{{- define "ray-pd-llm.validate.endpoint" -}}
{{- $values := .root.Values -}}
{{- $spare := 0 -}}
{{- range include "ray-pd-llm.roles" .root | fromJsonArray -}}
  {{- $facts := include "ray-pd-llm.role" (dict "root" $.root "name" .) | fromJson -}}
  {{- $cores := div (include "ray-pd-llm.millicores" (index $values .).resources.cpu | int64) 1000 -}}
  {{- $spare = add $spare (mul $facts.minReplicas (sub (mul $facts.podsPerReplica $cores) (add $facts.devices 1))) -}}
{{- end -}}
{{- $direct := $values.endpoint.directStreaming -}}
{{- if and (not $direct) (lt (int $spare) (int $values.endpoint.replicas)) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD145" "endpoint.replicas" (printf "each ingress replica needs one CPU in an engine pod, and the engines leave %d over" (int (max $spare 0))) "fewer replicas, or more resources.cpu for a role") -}}
{{- end -}}
{{- if and $direct (ne (int $values.endpoint.replicas) 1) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD189" "endpoint.replicas" "with directStreaming there is no ingress to have replicas of" "1, and more replicas of decode or engine where one cannot hand on all answers") -}}
{{- end -}}
{{- if and $direct (semverCompare "<2.58.0-0" ($values.image.rayVersion | default "2.58.0")) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD189" "endpoint.directStreaming" (printf "with Ray %s it was not tried" $values.image.rayVersion) "false, or Ray 2.58 or newer") -}}
{{- end -}}
{{- $guard := $values.endpoint.guard -}}
{{- range $owner := concat (include "ray-pd-llm.roles" .root | fromJsonArray) (list "model") -}}
  {{- if and $direct $guard.enabled (hasKey (index $values $owner "env") "RAYLLM_VLLM_ENGINE_CLS") -}}
    {{- include "ray-pd-llm.problem" (list $ "RPD189" (printf "%s.env.RAYLLM_VLLM_ENGINE_CLS" $owner) "with directStreaming this class is the guard, and another would let everybody in" "leave it out, or endpoint.guard.enabled: false") -}}
  {{- end -}}
{{- end -}}
{{- $taken := add $guard.inFlight $guard.queue -}}
{{- if and $guard.enabled (not $direct) (gt $taken (int64 $values.endpoint.maxOngoingRequests)) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD187" "endpoint.maxOngoingRequests" (printf "the guard takes %d requests (inFlight and queue), and what Ray Serve holds back before it waits without a limit" $taken) (printf "%d or more" $taken)) -}}
{{- end -}}
{{- $folder := include "ray-pd-llm.guardFolder" .root -}}
{{- range $owner := prepend (include "ray-pd-llm.roles" .root | fromJsonArray) "head" | concat (list "model") -}}
  {{- $path := index $values $owner "env" "PYTHONPATH" -}}
  {{- if and $guard.enabled (hasKey (index $values $owner "env") "PYTHONPATH") (not (has $folder (kindIs "string" $path | ternary (splitList ":" (toString $path)) list))) -}}
    {{- include "ray-pd-llm.problem" (list $ "RPD188" (printf "%s.env.PYTHONPATH" $owner) "the guard could not be imported" (printf "a path that has %s in it, or endpoint.guard.enabled: false" $folder)) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-pd-llm.validate.access" -}}
{{- $values := .root.Values -}}
{{- if and $values.huggingface.token $values.huggingface.existingSecret.name -}}
  {{- include "ray-pd-llm.problem" (list . "RPD180" "huggingface.token" "existingSecret.name is set as well, and one of the two would be ignored" "leave token empty") -}}
{{- end -}}
{{- if and (not $values.image.tag) (not $values.image.digest) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD181" "image.tag" "neither tag nor digest is set" "serve-llm-cuda, or a digest") -}}
{{- end -}}
{{- $known := index .root.Tables.versions.ray $values.image.rayVersion | default dict -}}
{{- if and $known (not (has $values.image.vllmVersion $known.vllm)) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD182" "image.vllmVersion" (printf "Ray %s goes with vLLM %s, not %s" $values.image.rayVersion (join " or " $known.vllm) $values.image.vllmVersion) (printf "%s" (join " or " $known.vllm))) -}}
{{- end -}}
{{- if and (eq $values.upgrade.strategy "NewCluster") (not $values.upgrade.spareCapacity) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD183" "upgrade.strategy" "NewCluster starts a second cluster beside the first; without as many GPUs again its pods pend for ever and the upgrade never ends" "None, or upgrade.spareCapacity: true where the nodes exist or can be had") -}}
{{- end -}}
{{- with $values.gcsFaultTolerance -}}
  {{- if and .enabled (not .redisAddress) -}}
    {{- include "ray-pd-llm.problem" (list $ "RPD184" "gcsFaultTolerance.redisAddress" "fault tolerance needs a Redis" "host:port of one that outlives the head") -}}
  {{- end -}}
{{- end -}}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) -}}
  {{- include "ray-pd-llm.problem" (list . "RPD185" "httpRoute.parentRefs" "a route without a Gateway routes nothing" "[{name: your-gateway}]") -}}
{{- end -}}
{{- range $values.extraObjects -}}
  {{- if and (eq .kind "Service") (.spec) (ne (.spec.type | default "ClusterIP") "ClusterIP") -}}
    {{- range .spec.ports -}}
      {{- if or (eq (toString .port) "8265") (eq (toString .targetPort) "8265") (eq (toString .targetPort) "dashboard") -}}
        {{- include "ray-pd-llm.problem" (list $ "RPD186" "extraObjects" "a Service of this kind lets everybody who reaches it run code through Ray's job API" "kubectl port-forward, or a ClusterIP Service behind authentication") -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
