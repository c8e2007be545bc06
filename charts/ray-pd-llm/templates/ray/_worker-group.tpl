{{/* One worker group of the Ray cluster: (dict "root" $ "name" "prefill"). */}}
{{- define "ray-pd-llm.workerGroup" -}}
{{- $facts := include "ray-pd-llm.role" . | fromJson -}}
{{- $scope := dict "root" .root "component" .name "settings" (index .root.Values .name) "facts" $facts -}}
- groupName: {{ .name }}
  {{- /* Where the autoscaler owns the number, writing it would make Helm and Ray fight over it. */}}
  {{- if ne (include "ray-pd-llm.autoscaling" .root) "true" }}
  replicas: {{ mul $facts.maxReplicas $facts.podsPerReplica }}
  {{- end }}
  minReplicas: {{ mul $facts.minReplicas $facts.podsPerReplica }}
  maxReplicas: {{ mul $facts.maxReplicas $facts.podsPerReplica }}
  {{- /* As KubeRay writes the list back when it adds its finalizer: were it to change it, the list would be
         KubeRay's, and the next server-side apply, Helm 4's or Argo CD's, would stop at a conflict. */}}
  scaleStrategy: {}
  rayStartParams:
    {{- include "ray-pd-llm.rayStartParams" $scope | nindent 4 }}
  template:
    {{- include "ray-pd-llm.podTemplate" $scope | nindent 4 }}
{{- end -}}
