"""Findings that the chart's renders alone do not lead to; test_plan.py has the others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from raypd.render import Rendered
from raypd.upgrade.plan import Plan, make
from unit.live import paper

SPARE = ("upgrade.strategy=NewCluster", "upgrade.spareCapacity=true")


def own_pods() -> list[dict[str, Any]]:
    """The release's engines, which hold the GPUs."""
    resources = {"requests": {"cpu": "16", "nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}}
    return [
        {
            "metadata": {
                "name": f"pod-{node}",
                "namespace": "inference",
                "labels": {"app.kubernetes.io/instance": "llm"},
            },
            "spec": {"nodeName": node, "containers": [{"resources": resources}]},
            "status": {"phase": "Running"},
        }
        for node in ("gpu-a", "gpu-b")
    ]


def in_cluster(*after: str, before: tuple[str, ...] = (), **facts: Any) -> Plan:
    """The plan on the cluster on paper, whose GPUs the release holds."""
    old, new = paper.rendered(*before), paper.rendered(*before, *after)
    running = {
        "metadata": {"name": "c1", "namespace": "inference", "resourceVersion": "7"},
        "spec": copy.deepcopy(old.rayservice["spec"]["rayClusterConfig"]),
    }
    known = {"rayservice": old.rayservice, "raycluster": running, "pods": own_pods(), **facts}
    return make("test", old, new, paper.case(new, **known))


def codes(plan: Plan) -> list[str]:
    return [finding.code for finding in plan.findings]


def more_gpus() -> list[dict[str, Any]]:
    """Nodes for two clusters."""
    nodes = paper.nodes()
    for node in copy.deepcopy(paper.nodes()):
        name = f"spare-{node['metadata']['name']}"
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        nodes.append(node)
    return nodes


def test_a_second_cluster_that_finds_no_nodes_is_an_error() -> None:
    plan = in_cluster("image.tag=x", before=SPARE)
    assert (plan.kind, codes(plan), plan.exit_code) == ("second cluster", ["RPD720", "RPD720"], 1)
    assert "never end" in plan.findings[0].message
    assert "such nodes have 0 GPUs" in plan.room.sentence()


def test_a_second_cluster_with_nodes_for_it_is_none() -> None:
    plan = in_cluster("image.tag=x", before=SPARE, nodes=more_gpus())
    assert (plan.kind, plan.findings, plan.exit_code) == ("second cluster", [], 0)
    assert "room on the nodes" in plan.checked


def test_another_engine_without_a_gpu_waits() -> None:
    assert codes(in_cluster("prefill.replicas=2")) == ["RPD721", "RPD726"]
    assert codes(in_cluster("prefill.replicas=2", nodes=more_gpus())) == ["RPD726"]


def test_pods_that_would_fit_nowhere_after_the_cluster_is_replaced() -> None:
    assert codes(in_cluster("prefill.nodeSelector.pool=none")) == ["RPD721", "RPD725"]


def test_an_autoscaler_of_nodes_may_bring_some() -> None:
    plan = in_cluster("image.tag=x", before=SPARE, autoscaled=True)
    assert [(f.code, f.severity) for f in plan.findings] == [("RPD722", "warning")] * 2


def test_a_node_that_is_gone_is_not_the_upgrades_fault() -> None:
    assert in_cluster("decode.maxOngoingRequests=9", nodes=[]).findings == []


def test_what_may_not_be_read_is_said() -> None:
    plan = in_cluster("image.tag=x", before=SPARE, unseen={"nodes": "you may not"})
    assert plan.findings == []
    assert "nodes: you may not" in plan.not_checked
    assert "not checked" in plan.room.sentence()


def test_changes_that_an_earlier_upgrade_left_waiting_are_seen() -> None:
    before = paper.rendered("image.tag=newer")
    running = {
        "metadata": {"name": "c1"},
        "spec": paper.rendered().rayservice["spec"]["rayClusterConfig"],
    }
    case = paper.case(before, rayservice=before.rayservice, raycluster=running)
    assert codes(make("test", before, before, case)) == ["RPD725"]


def test_without_a_raycluster_the_rayservice_stands_for_it() -> None:
    plan = in_cluster("image.tag=x", raycluster=None)
    assert codes(plan) == ["RPD725"]
    assert any("RayCluster" in line for line in plan.not_checked)


def changed(place: str, value: Any) -> Rendered:
    """The chart's render with another serve config; `place` is "a|0|b", None takes the key out."""
    made = paper.rendered()
    node: Any = made.serve_config
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("|"))
    for part in parents:
        node = node[part]
    node[last] = value
    if value is None:
        node.pop(last)
    made.rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(made.serve_config)
    return made


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        ("http_options", {"port": 9000}, "spec.serveConfigV2.http_options"),
        ("proxy_location", "HeadOnly", "spec.serveConfigV2.proxy_location"),
        (
            "applications|0|deployments|1|max_ongoing_requests",
            None,
            "spec.serveConfigV2 llm: deployments.Prefill:qwen3_5-9b.max_ongoing_requests",
        ),
    ],
)
def test_what_ray_serve_ignores(place: str, value: Any, path: str) -> None:
    (finding,) = make("test", paper.rendered(), changed(place, value)).findings
    assert (finding.code, finding.path) == ("RPD728", path)


def test_an_application_that_goes() -> None:
    plan = make("test", paper.rendered(), changed("applications|0|name", "other"))
    assert [f.path for f in plan.findings if f.code == "RPD724"] == ["application llm"]
    assert "none any more" in {row.requests for row in plan.rows}


def test_one_deployment_that_starts_anew_is_interrupted_alone() -> None:
    other = changed("applications|0|deployments|2|ray_actor_options", {"num_cpus": 2})
    (finding,) = make("test", paper.rendered(), other).findings
    assert finding.code == "RPD723"
    assert finding.message.startswith("Decode:qwen3_5-9b: one replica,")


@pytest.mark.parametrize(("other", "expected"), [("hub", ["RPD732"]), ("unread", [])])
def test_a_secret_that_the_release_brings_and_pods_read(other: str, expected: list[str]) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": other}}
    old = paper.rendered("huggingface.existingSecret.name=hub")
    new = paper.rendered("huggingface.existingSecret.name=hub")
    old.manifests.append({**secret, "data": {"token": "b2xk"}})
    new.manifests.append({**secret, "data": {"token": "bmV3"}})
    assert codes(make("test", old, new)) == expected
