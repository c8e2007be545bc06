"""From a RayService to Ray nodes: what KubeRay would start, without what one host cannot give."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from raypd.local.plan import HOST, plan, quantity
from raypd.report import UsageError


def _group(name: str, **changes: Any) -> dict[str, Any]:
    container = {
        "name": "ray-worker",
        "resources": {"requests": {"cpu": "2500m", "memory": "6Gi"}, "limits": {"memory": "6Gi"}},
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "HOME", "value": "/tmp"}],
    }
    group = {
        "groupName": name,
        "replicas": 1,
        "rayStartParams": {
            "resources": f'"{{\\"{name}\\": 1}}"',
            "metrics-export-port": "8080",
            "object-store-memory": "268435456",
        },
        "template": {"spec": {"containers": [container]}},
    }
    return {**group, **changes}


@pytest.fixture
def rayservice() -> dict[str, Any]:
    head = {
        "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0", "port": "6379"},
        "template": {
            "spec": {"containers": [{"name": "ray-head", "resources": {"limits": {"cpu": 2}}}]}
        },
    }
    cluster = {"headGroupSpec": head, "workerGroupSpecs": [_group("prefill"), _group("decode")]}
    return {
        "metadata": {"name": "llm", "namespace": "inference"},
        "spec": {"rayClusterConfig": cluster},
    }


@pytest.fixture
def serve_config() -> dict[str, Any]:
    engine = {
        "model_loading_config": {"model_id": "tiny", "model_source": "/m"},
        "engine_kwargs": {
            "kv_transfer_config": {"kv_connector_extra_config": {"backends": ["UCX"]}}
        },
    }
    args = {"prefill_config": engine, "decode_config": copy.deepcopy(engine)}
    return {"applications": [{"name": "llm", "args": args}]}


def _env(rayservice: dict[str, Any], group: int, entry: dict[str, Any]) -> None:
    spec = rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"][group]["template"]["spec"]
    spec["containers"][0]["env"].append(entry)


def test_one_node_for_each_pod(rayservice, serve_config):
    groups = rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    groups[0]["replicas"] = 2
    groups[1]["numOfHosts"] = 2
    names = [node.name for node in plan(rayservice, serve_config).nodes]
    assert names == ["head", "prefill-0", "prefill-1", "decode-0", "decode-1"]


def test_without_replicas_the_minimum_starts(rayservice, serve_config):
    group = rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    del group["replicas"]
    group["minReplicas"] = 3
    nodes = plan(rayservice, serve_config).nodes
    assert sum(node.group == "prefill" for node in nodes) == 3


def test_zero_replicas_stay_zero(rayservice, serve_config):
    rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"] = 0
    assert [node.group for node in plan(rayservice, serve_config).nodes] == ["head", "decode"]


def test_options_as_kuberay_derives_them(rayservice, serve_config):
    head, prefill, _ = plan(rayservice, serve_config).nodes
    assert head.options["num-cpus"] == "0"  # rayStartParams win over the container's resources
    assert prefill.options["num-cpus"] == "3"  # 2500m, rounded up
    assert prefill.options["memory"] == str(6 * 2**30)
    assert prefill.options["resources"] == '{"prefill": 1}'  # the shell's quotes are gone


def test_what_one_host_cannot_give_is_left_out_and_said(rayservice, serve_config):
    result = plan(rayservice, serve_config)
    for node in result.nodes:
        assert not {"metrics-export-port", "port", "dashboard-host"} & node.options.keys()
        assert int(node.options["object-store-memory"]) <= 128 * 2**20
        assert "HOME" not in node.env
    assert any("ports" in line for line in result.replaced)


def test_serve_config_is_untouched(rayservice, serve_config):
    before = copy.deepcopy(serve_config)
    assert plan(rayservice, serve_config).serve_config == before == serve_config


def test_pod_ip_becomes_the_loopback_address(rayservice, serve_config):
    source = {"fieldRef": {"fieldPath": "status.podIP"}}
    _env(rayservice, 0, {"name": "VLLM_HOST_IP", "valueFrom": source})
    result = plan(rayservice, serve_config)
    assert result.nodes[1].env["VLLM_HOST_IP"] == HOST
    assert sum("VLLM_HOST_IP" in line for line in result.replaced) == 1


def test_secret_from_the_render_else_from_the_caller_else_said(rayservice, serve_config):
    for name in ("A", "B", "C"):
        reference = {"secretKeyRef": {"name": "s" if name == "A" else "elsewhere", "key": "k"}}
        _env(rayservice, 0, {"name": name, "valueFrom": reference})
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "from render"}}
    result = plan(rayservice, serve_config, [secret], {"B": "from caller"})
    env = result.nodes[1].env
    assert (env["A"], env["B"]) == ("from render", "from caller")
    assert "C" not in env
    assert any(line.startswith("C: left out") for line in result.replaced)


def _ask_for_gpus(rayservice, *counts):
    for group, count in zip(
        rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"], counts, strict=True
    ):
        resources = group["template"]["spec"]["containers"][0]["resources"]
        resources["limits"]["nvidia.com/gpu"] = count


def test_gpus_that_are_not_here_are_refused(rayservice, serve_config):
    _ask_for_gpus(rayservice, 1, 2)
    with pytest.raises(UsageError, match=r"2 GPUs in one pod, and this machine has 1.*device=cpu"):
        plan(rayservice, serve_config, gpus=1)


def test_each_node_has_cards_of_its_own_where_there_are_enough(rayservice, serve_config):
    _ask_for_gpus(rayservice, 1, 2)
    result = plan(rayservice, serve_config, gpus=4)
    cards = {node.name: node.env.get("CUDA_VISIBLE_DEVICES") for node in result.nodes}
    assert cards == {"head": "", "prefill-0": "0", "decode-0": "1,2"}
    assert not any("share a card" in line for line in result.replaced)


def test_nodes_share_a_card_where_there_is_one_and_it_is_said(rayservice, serve_config):
    _ask_for_gpus(rayservice, 1, 1)
    result = plan(rayservice, serve_config, gpus=1)
    assert [node.env["CUDA_VISIBLE_DEVICES"] for node in result.nodes[1:]] == ["0", "0"]
    assert any("ask for 2, here is 1" in line for line in result.replaced)


def test_facts_of_the_serve_config(rayservice, serve_config):
    result = plan(rayservice, serve_config)
    assert (result.model_id, result.disaggregated, result.backends) == ("tiny", True, ["UCX"])
    assert result.one_worker_per_pod
    engine = serve_config["applications"][0]["args"]["decode_config"]
    engine["engine_kwargs"] = {"tensor_parallel_size": 2}
    serve_config["applications"][0]["args"] = {"llm_configs": [engine]}
    result = plan(rayservice, serve_config)
    assert (result.disaggregated, result.backends, result.one_worker_per_pod) == (False, [], False)


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("2", 2), (4, 4), ("6Gi", 6 * 2**30), ("1.5G", 1.5e9), ("128Mi", 128 * 2**20)],
)
def test_quantity(text, number):
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "6GiB", "many", "1 Gi x"])
def test_no_quantity(text):
    with pytest.raises(UsageError, match="quantity"):
        quantity(text)
