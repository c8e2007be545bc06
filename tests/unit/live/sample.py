"""The reference deployment on a live cluster, as the API server, Ray Serve and vLLM describe it, and
the means to change it in one place."""

from __future__ import annotations

import copy
from typing import Any

from raypd import yaml_text
from raypd.live.snapshot import Snapshot

Json = dict[str, Any]

NAMESPACE, TAKEN = "inference", "2026-03-01T12:00:00Z"
CLUSTER = "llm-ray-pd-llm-x7k2p"
IMAGE = "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda"
NAMES = {
    "head": f"{CLUSTER}-head-vxdqq",
    "prefill": f"{CLUSTER}-prefill-worker-sxjm6",
    "decode": f"{CLUSTER}-decode-worker-2dnjc",
}
ADDRESSES = {"head": "10.0.1.10", "prefill": "10.0.2.20", "decode": "10.0.3.30"}
HOME = {"head": "system", "prefill": "gpu-a", "decode": "gpu-b"}
WORKERS = {role: f"{i}" * 56 for i, role in enumerate(("head", "prefill", "decode", "ingress"))}
EPOCH = 1772366400  # TAKEN in seconds


def parse(text: str) -> Any:
    return yaml_text.load(text)


def node(name: str, role: str, **offers: str | int) -> Json:
    """A node with the labels that the shipped eksctl config gives it."""
    kind = "m7i.xlarge" if role == "system" else "g6.8xlarge"
    made = parse(f"""
        metadata:
          name: {name}
          creationTimestamp: "2026-03-01T10:00:00Z"
          labels:
            kubernetes.io/hostname: {name}
            node.kubernetes.io/instance-type: {kind}
            role: {role}
            topology.kubernetes.io/zone: us-west-2a
        spec: {{}}
        status:
          allocatable: {{cpu: "31", memory: 120Gi, pods: "110"}}
          conditions:
            - {{type: MemoryPressure, status: "False", reason: KubeletHasSufficientMemory}}
            - type: Ready
              status: "True"
              reason: KubeletReady
              message: kubelet is posting ready status
              lastTransitionTime: "2026-03-01T10:01:00Z"
    """)
    made["status"]["allocatable"].update({key: str(value) for key, value in offers.items()})
    return made


def gpu_node(name: str) -> Json:
    return node(name, "gpu-worker", **{"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1})


_ENGINE_SPEC = """
    nodeSelector: {role: gpu-worker, node.kubernetes.io/instance-type: g6.8xlarge}
    tolerations:
      - {key: aws.amazon.com/efa, operator: Exists, effect: NoSchedule}
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
    affinity:
      podAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: topology.kubernetes.io/zone
            labelSelector:
              matchLabels: {app.kubernetes.io/instance: llm}
              matchExpressions:
                - {key: app.kubernetes.io/component, operator: In, values: [prefill, decode]}
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels: {app.kubernetes.io/instance: llm, app.kubernetes.io/component: OTHER}
    initContainers:
      - {name: wait-gcs-ready, image: IMAGE, resources: {requests: {cpu: 200m, memory: 256Mi}}}
    containers:
      - name: ray-worker
        image: IMAGE
        env:
          - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf-token, key: HF_TOKEN}}}
        resources:
          limits: {memory: 96Gi, nvidia.com/gpu: "1", vpc.amazonaws.com/efa: "1"}
          requests: {cpu: "16", memory: 96Gi, nvidia.com/gpu: "1", vpc.amazonaws.com/efa: "1"}
    volumes:
      - {name: cache, hostPath: {path: /mnt/k8s-disks/0, type: Directory}}
"""
_HEAD_SPEC = """
    nodeSelector: {role: system}
    containers:
      - name: ray-head
        image: IMAGE
        resources: {limits: {memory: 8Gi}, requests: {cpu: "2", memory: 8Gi}}
"""


def pod(component: str) -> Json:
    """A pod of the release that runs and is ready."""
    other = {"prefill": "decode", "decode": "prefill"}.get(component, "")
    written = _HEAD_SPEC if component == "head" else _ENGINE_SPEC
    spec = parse(written.replace("IMAGE", IMAGE).replace("OTHER", other))
    spec["nodeName"] = HOME[component]
    container = spec["containers"][0]["name"]
    status = parse(f"""
        phase: Running
        podIP: {ADDRESSES[component]}
        conditions:
          - {{type: PodScheduled, status: "True", lastTransitionTime: "2026-03-01T11:00:01Z"}}
          - {{type: Ready, status: "True", lastTransitionTime: "2026-03-01T11:10:00Z"}}
        containerStatuses:
          - name: {container}
            image: {IMAGE}
            containerID: containerd://0123
            ready: true
            restartCount: 0
            state: {{running: {{startedAt: "2026-03-01T11:05:00Z"}}}}
            lastState: {{}}
    """)
    return {
        "metadata": {
            "name": NAMES[component],
            "namespace": NAMESPACE,
            "uid": f"uid-{component}",
            "creationTimestamp": "2026-03-01T11:00:00Z",
            "labels": {
                "app.kubernetes.io/component": component,
                "app.kubernetes.io/instance": "llm",
                "app.kubernetes.io/name": "ray-pd-llm",
                "ray.io/cluster": CLUSTER,
            },
        },
        "spec": spec,
        "status": status,
    }


def pending(component: str, message: str) -> Json:
    """A pod of the release that the scheduler finds no node for."""
    made = pod(component)
    del made["spec"]["nodeName"]
    made["status"] = parse(f"""
        phase: Pending
        conditions:
          - type: PodScheduled
            status: "False"
            reason: Unschedulable
            message: {message!r}
            lastTransitionTime: "2026-03-01T11:00:01Z"
    """)
    return made


def waiting(component: str, reason: str, message: str = "") -> Json:
    """A pod on its node whose Ray container waits for `reason`."""
    made = pod(component)
    made["status"]["phase"] = "Pending"
    made["status"]["conditions"][1] = {"type": "Ready", "status": "False"}
    state = made["status"]["containerStatuses"][0]
    state["state"] = {"waiting": {"reason": reason, "message": message}}
    state["ready"] = False
    del state["containerID"]
    return made


def unready(component: str) -> Json:
    """A pod whose container runs and whose readiness probe fails, as of any worker that loads."""
    made = pod(component)
    made["status"]["conditions"][1] = {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "lastTransitionTime": "2026-03-01T11:00:01Z",
    }
    made["status"]["containerStatuses"][0]["ready"] = False
    return made


def event(
    kind: str,
    item: Json,
    reason: str,
    message: str,
    at: str = "2026-03-01T11:59:30Z",
    field: str = "",
) -> Json:
    return {
        "metadata": {"creationTimestamp": at},
        "involvedObject": {
            "kind": kind,
            "name": item["metadata"]["name"],
            "uid": item["metadata"]["uid"],
            "fieldPath": field,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "lastTimestamp": at,
        "eventTime": None,
    }


def rayservice(ready: bool = True) -> Json:
    made = parse(f"""
        metadata: {{name: llm-ray-pd-llm, namespace: {NAMESPACE}, uid: uid-rayservice, generation: 1}}
        spec:
          serveService: {{metadata: {{name: llm-ray-pd-llm-serve-svc}}}}
          rayClusterConfig:
            headGroupSpec:
              rayStartParams: {{num-cpus: "0"}}
            workerGroupSpecs:
              - groupName: prefill
                replicas: 1
                rayStartParams: {{resources: '"{{\\"prefill\\": 1}}"'}}
                template: {{spec: {{}}}}
              - groupName: decode
                replicas: 1
                rayStartParams: {{resources: '"{{\\"decode\\": 1}}"'}}
                template: {{spec: {{}}}}
        status:
          observedGeneration: 1
          numServeEndpoints: 2
          conditions:
            - {{type: Ready, status: "True", reason: NonZeroServeEndpoints, message: ""}}
          activeServiceStatus:
            rayClusterName: {CLUSTER}
            applicationStatuses: {{llm: {{status: RUNNING}}}}
    """)
    for group, role in zip(
        made["spec"]["rayClusterConfig"]["workerGroupSpecs"], ("prefill", "decode"), strict=True
    ):
        group["template"]["spec"] = pod(role)["spec"]
    if not ready:
        status = made["status"]
        status["numServeEndpoints"] = 0
        status["conditions"][0].update(status="False", reason="Initializing")
        # While it prepares its first cluster KubeRay has it as the pending one.
        status["pendingServiceStatus"] = {**status.pop("activeServiceStatus")}
        status["pendingServiceStatus"]["applicationStatuses"] = {"llm": {"status": "DEPLOYING"}}
    return made


def deployment(
    role: str, status: str = "HEALTHY", message: str = "", state: str = "RUNNING"
) -> Json:
    place = "decode" if role == "ingress" else role
    return {
        "status": status,
        "message": message,
        "target_num_replicas": 1,
        "replicas": [replica(role, place, state)],
        "recent_dead_replicas": [],
    }


def replica(role: str, place: str, state: str = "RUNNING", seconds: int = 73) -> Json:
    return {
        "replica_id": f"{role}1",
        "state": state,
        "node_ip": ADDRESSES[place],
        "worker_id": WORKERS[role],
        "start_time_s": EPOCH - seconds,
    }


def serve(status: str = "RUNNING", message: str = "", **deployments: Json) -> Json:
    parts = {role: deployment(role) for role in ("ingress", "prefill", "decode")} | deployments
    names = {
        "ingress": "OpenAiIngress",
        "prefill": "Prefill:qwen3.5-9b",
        "decode": "Decode:qwen3.5-9b",
    }
    return {
        "applications": {
            "llm": {
                "name": "llm",
                "status": status,
                "message": message,
                "deployments": {names[role]: part for role, part in parts.items()},
            }
        }
    }


def snapshot(**changes: Any) -> Snapshot:
    """The release that serves, with other values for some fields."""
    whole: dict[str, Any] = {
        "release": "llm",
        "namespace": NAMESPACE,
        "taken": TAKEN,
        "helm": {"name": "llm", "status": "deployed", "version": "1"},
        "operator": {
            "metadata": {"name": "kuberay-operator", "namespace": "kuberay-system"},
            "status": {"readyReplicas": 1},
        },
        "rayservice": rayservice(),
        "rayclusters": [
            {"metadata": {"name": CLUSTER, "namespace": NAMESPACE, "uid": "uid-raycluster"}}
        ],
        "pods": [pod("head"), pod("prefill"), pod("decode")],
        "nodes": [node("system", "system"), gpu_node("gpu-a"), gpu_node("gpu-b")],
        "daemonsets": [plugin("nvidia-device-plugin-daemonset"), plugin(EFA_PLUGIN)],
        "serve": serve(),
    }
    return Snapshot(**{**whole, **changes})


EFA_PLUGIN = "aws-efa-k8s-device-plugin-daemonset"


def plugin(name: str, *tolerated: str, ready: int = 2) -> Json:
    """A device plugin's DaemonSet that tolerates these taints' keys."""
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "template": {
                "spec": {
                    "tolerations": [
                        {"key": key, "operator": "Exists", "effect": "NoSchedule"}
                        for key in tolerated
                    ]
                }
            }
        },
        "status": {"desiredNumberScheduled": ready, "numberReady": ready},
    }


def log(role: str, text: str, suffix: str = "out") -> str:
    """A worker's log file as it is kept of a pod."""
    names = {"prefill": "Prefill:qwen3.5-9b", "decode": "Decode:qwen3.5-9b"}
    return (
        f"==> worker-{WORKERS[role]}-01000000-143.{suffix} <==\n"
        f":job_id:01000000\n:actor_name:ServeReplica:llm:{names[role]}\n{text.strip()}\n"
    )


def changed(item: Json, change: str) -> Json:
    """A copy with YAML laid over it, mapping by mapping."""

    def lay(under: Json, over: Json) -> None:
        for key, value in over.items():
            if isinstance(value, dict) and isinstance(under.get(key), dict):
                lay(under[key], value)
            else:
                under[key] = value

    made = copy.deepcopy(item)
    lay(made, parse(change))
    return made
