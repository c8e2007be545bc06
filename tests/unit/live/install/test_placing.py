"""Whether pods find nodes."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest

from raypd.lint.contract import contract_for
from raypd.lint.subject import Subject
from raypd.live.install.placing import Shortage, Wanted, left, shortages, wanted
from raypd.live.install.room import request_of
from unit.live import paper

ONE_GPU = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}


def group(name: str, count: int = 1, **pod: Any) -> Wanted:
    whole = {**ONE_GPU, **pod}
    return Wanted(name, "", count, {"role": name}, whole, request_of(whole))


def gpus(*names: str, count: str = "1", **labels: str) -> list[dict[str, Any]]:
    return [paper.node(name, labels, gpu=count) for name in names]


def apart(role: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"role": role}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def alone(found: list[Shortage]) -> Shortage:
    (short,) = found
    return short


def test_pods_fill_nodes_one_after_the_other() -> None:
    assert shortages([group("a", 3)], gpus("n1", "n2", count="2"), []) == []
    assert alone(shortages([group("a", 5)], gpus("n1", "n2", count="2"), [])).placed == 4


def test_groups_share_the_nodes() -> None:
    short = alone(shortages([group("a"), group("b")], gpus("n1"), []))
    assert (short.wanted.group, short.placed) == ("b", 0)
    assert short.obstacles == {"n1": "has no nvidia.com/gpu left of 1 that a pod takes"}


def test_roles_that_are_kept_apart_need_nodes_of_their_own() -> None:
    groups = [group("prefill"), group("decode", affinity=apart("prefill"))]
    assert shortages(groups, gpus("n1", "n2", count="2"), []) == []
    short = alone(shortages(groups, gpus("n1", count="2"), []))
    assert "from which it has to stay apart" in short.obstacles["n1"]


def test_engines_of_one_zone_take_the_zone_with_the_most_room() -> None:
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"role": "x"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    zone = "topology.kubernetes.io/zone"
    nodes = gpus("n1", **{zone: "a"}) + gpus("n2", "n3", **{zone: "b"})
    assert shortages([group("x", 2, affinity=affinity)], nodes, []) == []
    short = alone(shortages([group("x", 3, affinity=affinity)], nodes, []))
    assert short.placed == 2
    assert "the pods that it has to be near to are in b" in short.obstacles["n1"]


@pytest.mark.parametrize(
    ("taint", "why"),
    [
        ({"key": "node.kubernetes.io/unschedulable"}, "is cordoned"),
        ({"key": "node.kubernetes.io/not-ready"}, "is not ready"),
        ({"key": "gpu", "value": "l4"}, "has the taint gpu=l4:NoSchedule, which is not tolerated"),
    ],
)
def test_a_node_that_takes_no_pods(taint: dict[str, str], why: str) -> None:
    (node,) = gpus("n1")
    node["spec"]["taints"] = [{**taint, "effect": "NoSchedule"}]
    assert alone(shortages([group("a")], [node], [])).obstacles == {"n1": why}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "gpu", "value": "l4"},
    ],
)
def test_a_taint_that_is_tolerated(toleration: dict[str, Any]) -> None:
    (node,) = gpus("n1")
    node["spec"]["taints"] = [{"key": "gpu", "value": "l4", "effect": "NoSchedule"}]
    assert shortages([group("a", tolerations=[toleration])], [node], []) == []


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "t", "operator": "In", "values": ["x", "y"]}, True),
        ({"key": "t", "operator": "NotIn", "values": ["x"]}, False),
        ({"key": "t", "operator": "Exists"}, True),
        ({"key": "t", "operator": "DoesNotExist"}, False),
        ({"key": "n", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "n", "operator": "Lt", "values": ["3"]}, False),
        ({"key": "t", "operator": "Gt", "values": ["3"]}, False),
    ],
)
def test_node_affinity(expression: dict[str, Any], fits: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found = shortages([group("a", affinity=affinity)], gpus("n1", t="x", n="4"), [])
    assert (found == []) is fits


def test_labels_that_no_node_has_are_counted() -> None:
    short = alone(
        shortages([group("a", nodeSelector={"t": "x", "u": "y"})], gpus("n1", "n2", t="x"), [])
    )
    assert (short.selected, short.selector) == ([], {"t=x": 2, "u=y": 0})


def test_pods_that_are_there_take_room_until_they_have_ended() -> None:
    pod = {"spec": {"nodeName": "n1", **ONE_GPU}, "status": {"phase": "Running"}}
    assert alone(shortages([group("a")], gpus("n1"), [pod])).placed == 0
    pod["status"]["phase"] = "Succeeded"
    assert shortages([group("a")], gpus("n1"), [pod]) == []


def test_no_nodes_at_all() -> None:
    assert alone(shortages([group("a", 2)], [], [])).placed == 0


def test_the_autoscaler_of_ray_rides_with_the_head() -> None:
    rendered = paper.rendered("decode.autoscaling.enabled=true")
    subject = Subject(rendered, contract_for(""))
    head, prefill, decode = wanted(subject.groups, subject.cluster["autoscalerOptions"])
    assert (head.group, head.count, head.request["cpu"]) == ("head", 1, Decimal("2.5"))
    assert (prefill.count, decode.count) == (1, 1)
    assert wanted(subject.groups, {})[0].request["memory"] == 8 * 2**30 + 512 * 2**20
    assert wanted(subject.groups)[0].request["cpu"] == 2


def test_hundreds_of_pods_and_nodes_take_no_time() -> None:
    nodes = gpus(*(f"n{i}" for i in range(300)))
    groups = [group("prefill", 100), group("decode", 100, affinity=apart("prefill"))]
    begin = time.monotonic()
    assert shortages(groups, nodes, []) == []
    assert time.monotonic() - begin < 10


def test_what_is_left_is_that_of_the_nodes_that_are_selected() -> None:
    nodes = [*gpus("n1", "n2", count="4", pool="a"), *gpus("n3", count="8", pool="b")]
    taken = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {**ONE_GPU, "nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    found = left([group("a", nodeSelector={"pool": "a"})], nodes, [taken])
    assert found["nvidia.com/gpu"] == Decimal(7)
    assert left([group("a", nodeSelector={"pool": "c"})], nodes, []) == {}
