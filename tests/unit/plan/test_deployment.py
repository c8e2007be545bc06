"""From values to engines and nodes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from raypd import yaml_text
from raypd.plan.deployment import Deployment, kv_bytes, of_values, proposed
from unit.plan.samples import CHART, INSTANCES, engine_on

DEFAULTS = yaml_text.load((CHART / "values.yaml").read_text())


def read(**changes: Any) -> Deployment:
    """The deployment of the chart's defaults with dotted paths (`__` for a dot) changed."""
    deployment, unknown = of_values(changed(**changes), INSTANCES)
    assert deployment is not None, unknown
    return deployment


def changed(**changes: Any) -> dict[str, Any]:
    values = copy.deepcopy(DEFAULTS)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = values
        for key in parents:
            place = place[key]
        place[last] = value
    return values


def test_the_reference_deployment() -> None:
    deployment = read()
    assert deployment.nodes == {"g6.8xlarge": 2, "m7i.xlarge": 1}
    prefill, decode = deployment.roles
    assert (prefill.name, prefill.interfaces, prefill.wire) == ("prefill", 1, 2.5e9)
    assert (decode.engine.max_seqs, decode.engine.batched_tokens) == (256, 2048)


def test_an_aggregated_engine_has_no_interfaces() -> None:
    deployment = read(topology__mode="aggregated", engine__replicas=3)
    (engine,) = deployment.roles
    assert (engine.name, engine.interfaces, engine.nodes) == ("engine", 0, 3)


def test_an_engine_over_several_nodes() -> None:
    deployment = read(
        topology__mode="multinode", engine__parallelism={"tensor": 1, "pipeline": 2, "nodes": 2}
    )
    assert deployment.nodes["g6.8xlarge"] == 2
    assert deployment.roles[0].engine.cards == 2


def test_pods_share_a_node_where_it_has_the_cards() -> None:
    deployment = read(
        prefill__instanceType="p5.48xlarge",
        prefill__replicas=3,
        prefill__parallelism={"tensor": 4, "pipeline": 1, "nodes": 1},
        prefill__efaInterfaces=16,
    )
    prefill = deployment.role("prefill")
    assert prefill.nodes == 2
    assert prefill.wire == pytest.approx(0.8 * 200e9)


def test_engine_settings_of_the_values() -> None:
    deployment = read(
        decode__maxNumSeqs=32,
        prefill__engineArgs={"max_num_batched_tokens": 512},
        model__kvCacheDtype="fp8",
    )
    assert deployment.role("decode").engine.max_seqs == 32
    assert deployment.role("prefill").engine.batched_tokens == 512
    assert deployment.role("decode").engine.kv_bytes == 1


def test_autoscaling_is_counted_at_its_most() -> None:
    values = changed(decode__autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 5})
    deployment, unknown = of_values(values, INSTANCES)
    assert deployment is not None
    assert deployment.role("decode").replicas == 5
    assert "maxReplicas" in unknown[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"runtime__device": "cpu"}, "runtime.device is cpu"),
        ({"decode__instanceType": ""}, "decode: its instanceType is empty"),
        ({"prefill__instanceType": "x9.large"}, "prefill: its instanceType is x9.large"),
        ({"prefill__instanceType": "m7i.xlarge"}, "m7i.xlarge"),
    ],
)
def test_what_cannot_be_planned_for_is_said(changes: dict[str, Any], says: str) -> None:
    deployment, unknown = of_values(changed(**changes), INSTANCES)
    assert deployment is None
    assert says in unknown[0]


@pytest.mark.parametrize(
    ("cache", "dtype", "size"),
    [
        ("auto", "bfloat16", 2),
        ("auto", "float32", 4),
        ("fp8_e4m3", "bfloat16", 1),
        ("float16", "x", 2),
    ],
)
def test_bytes_of_the_cache(cache: str, dtype: str, size: int) -> None:
    assert kv_bytes(cache, dtype) == size


def test_a_proposal_shares_the_interfaces_and_falls_to_tcp_only_without_any() -> None:
    engine = engine_on("p5.48xlarge", tensor=4)
    there = proposed("p5.48xlarge", INSTANCES["p5.48xlarge"], engine, 4096, "m7i.xlarge", (2, 1))
    assert (there.fabric, there.roles[0].interfaces) == ("efa", 16)
    none = proposed("g6.xlarge", INSTANCES["g6.xlarge"], engine_on("g6.xlarge"), 4096, "")
    assert (none.fabric, none.roles[0].interfaces) == ("tcp", 0)
    assert none.nodes == {"g6.xlarge": 2}
