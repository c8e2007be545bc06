"""What a release serves, from its RayService and its pods."""

from __future__ import annotations

import copy

import pytest
import yaml

from raypd.live import served
from raypd.report import UsageError


def _pod(name: str, role: str, cluster: str = "new") -> dict:
    return {
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/component": role,
                "ray.io/cluster": cluster,
            },
        },
        "spec": {"containers": [{"name": "ray-worker", "resources": {"limits": {"cpu": "3"}}}]},
        "status": {"phase": "Running"},
    }


def _rayservice(extra: dict | None = None) -> dict:
    config = {
        "model_loading_config": {"model_id": "m"},
        "engine_kwargs": {
            "max_model_len": 4096,
            "kv_transfer_config": {"kv_connector_extra_config": extra or {}},
        },
    }
    args = {"prefill_config": config, "decode_config": copy.deepcopy(config)}
    application = {"name": "llm", "route_prefix": "/models", "args": args}
    return {
        "metadata": {"name": "llm-ray-pd-llm", "namespace": "inference"},
        "spec": {"serveConfigV2": yaml.safe_dump({"applications": [application]})},
        "status": {"activeServiceStatus": {"rayClusterName": "new"}},
    }


PODS = [_pod("h", "head"), _pod("p", "prefill"), _pod("d", "decode")]


def test_only_running_pods_of_the_active_cluster_serve():
    leaving = _pod("d-leaving", "decode")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    pending = _pod("p-pending", "prefill")
    pending["status"]["phase"] = "Pending"
    others = [_pod("p-old", "prefill", "old"), _pod("h-old", "head", "old"), leaving, pending]
    found = served.served(_rayservice(), [*others, *PODS])
    names = {role: [p["metadata"]["name"] for p in pods] for role, pods in found.engines.items()}
    assert names == {"prefill": ["p"], "decode": ["d"]}
    assert found.head["metadata"]["name"] == "h"
    assert (found.model, found.context, found.prefix) == ("m", 4096, "/models")


def test_the_door_is_a_pod_of_the_service():
    assert served.served(_rayservice(), PODS).door["metadata"]["name"] == "h"
    serving = copy.deepcopy(PODS)
    serving[1]["metadata"]["labels"]["ray.io/serve"] = "true"
    assert served.served(_rayservice(), serving).door["metadata"]["name"] == "p"


def test_nixl_takes_ucx_where_no_backend_is_named():
    assert served.served(_rayservice(), PODS).backends == {"prefill": ["UCX"], "decode": ["UCX"]}
    found = served.served(_rayservice({"backends": ["LIBFABRIC"]}), PODS)
    assert found.backends["decode"] == ["LIBFABRIC"]


def test_a_release_without_an_active_cluster_does_not_serve():
    rayservice = _rayservice()
    rayservice["status"] = {"pendingServiceStatus": {"rayClusterName": "new"}}
    with pytest.raises(UsageError, match=r"prefill or decode or head of an active RayCluster"):
        served.served(rayservice, PODS)


def test_telemetry_and_efa_of_a_pod():
    pod = _pod("d", "decode")
    assert served.telemetry_port(pod) is None
    assert not served.asks_for_efa(pod)
    container = pod["spec"]["containers"][0]
    container["env"] = [{"name": "NIXL_TELEMETRY_EXPORTER", "value": "prometheus"}]
    container["resources"]["limits"]["vpc.amazonaws.com/efa"] = 1
    assert served.telemetry_port(pod) == 9090
    assert served.asks_for_efa(pod)
    container["env"].append({"name": "NIXL_TELEMETRY_PROMETHEUS_PORT", "value": "9400"})
    assert served.telemetry_port(pod) == 9400


def _on(node: str, pod: dict, gpu: bool = True) -> dict:
    placed = copy.deepcopy(pod)
    placed["spec"]["nodeName"] = node
    if gpu:
        placed["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    return placed


@pytest.mark.parametrize(
    ("prefill", "decode", "backend", "known"),
    [
        (_on("a", PODS[1]), _on("a", PODS[2]), "UCX", True),
        (_on("a", PODS[1]), _on("b", PODS[2]), "UCX", False),
        (_on("a", PODS[1], gpu=False), _on("a", PODS[2], gpu=False), "UCX", False),
        (_on("a", PODS[1]), _on("a", PODS[2]), "LIBFABRIC", False),
    ],
    ids=["GPUs of one host", "two hosts", "no GPU", "another backend"],
)
def test_what_a_path_gives_is_known_where_it_was_measured(prefill, decode, backend, known):
    found = served.served(_rayservice({"backends": [backend]}), [PODS[0], prefill, decode])
    assert (found.floor is not None) is known
