"""The reference release as its looks go by, from pods that wait to an application that runs."""

from __future__ import annotations

from typing import Any

from raypd.live.snapshot import Snapshot
from unit.live import paper

Json = dict[str, Any]

LOADED = "INFO Model loading took 17.1 GiB memory and 12.2 seconds"
STARTED = "INFO init engine (profile, create kv cache, warmup model) took 21.50 s"
DEPLOYMENTS = ("Prefill:qwen3.5-9b", "Decode:qwen3.5-9b", "PDServer")


def pod(role: str, step: int = 3, cluster: str = "c1") -> Json:
    """A Ray pod: 0 unscheduled, 1 pulling its image, 2 starting, 3 running."""
    container = {"name": "ray-head" if role == "head" else "ray-worker", "image": "image"}
    states: list[Json] = [
        {},
        {"state": {"waiting": {"reason": "ContainerCreating"}}, "imageID": ""},
        {"state": {"waiting": {"reason": "PodInitializing"}}, "imageID": ""},
        {"state": {"running": {}}, "imageID": "sha256:1"},
    ]
    status: Json = {"phase": "Running" if step == 3 else "Pending"}
    if step:
        status["containerStatuses"] = [{"name": container["name"], **states[step]}]
    else:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        ]
    spec: Json = {"containers": [container]}
    if step:
        spec["nodeName"] = f"node-{role}"
    if step >= 2 and role != "head":
        spec["initContainers"] = [{"name": "wait", "image": "image"}]
        waits: Json = {"name": "wait", "imageID": "sha256:1", "state": {"running": {}}}
        if step == 3:
            waits["state"] = {"terminated": {"reason": "Completed", "exitCode": 0}}
        status["initContainerStatuses"] = [waits]
    return {
        "metadata": {
            "name": f"llm-{role}",
            "namespace": "inference",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {
                "app.kubernetes.io/instance": "llm",
                "app.kubernetes.io/component": role,
                "ray.io/cluster": cluster,
            },
        },
        "spec": spec,
        "status": status,
    }


def rayservice(
    *set_: str, serving: str = "", pending: str = "", generation: int = 1, observed: int = 1
) -> Json:
    """The RayService of the chart, with KubeRay's status; `serving` and `pending` are RayClusters."""
    made = paper.rendered(*set_).rayservice
    made["metadata"]["generation"] = generation
    made["status"] = {
        "observedGeneration": observed,
        "activeServiceStatus": {"rayClusterName": serving},
        "pendingServiceStatus": {"rayClusterName": pending},
        "conditions": [{"type": "Ready", "status": "True" if serving else "False"}],
    }
    return made


def serve(status: str, healthy: int = len(DEPLOYMENTS)) -> Json:
    """The dashboard's document."""
    deployments = {
        name: {
            "status": "HEALTHY" if at < healthy else "UPDATING",
            "message": "",
            "replicas": [],
        }
        for at, name in enumerate(DEPLOYMENTS)
    }
    application = {"status": status, "message": "", "deployments": deployments}
    return {"applications": {"llm": application}}


def snapshot(**parts: Any) -> Snapshot:
    """A look at the release."""
    known = {"release": "llm", "namespace": "inference", "taken": "2026-01-31T12:05:00Z"}
    return Snapshot(**{**known, **parts})


def running(*set_: str, **parts: Any) -> Snapshot:
    """A look at the release when it serves."""
    known = {
        "rayservice": rayservice(*set_, serving="c1"),
        "pods": [pod(role) for role in ("head", "prefill", "decode")],
        "serve": serve("RUNNING"),
        "engine_logs": dict.fromkeys(("llm-prefill", "llm-decode"), f"{LOADED}\n{STARTED}"),
    }
    return snapshot(**{**known, **parts})
