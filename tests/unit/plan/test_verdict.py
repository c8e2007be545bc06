"""The shape to choose, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raypd.data import load
from raypd.plan import cost
from raypd.plan.assess import assess
from raypd.plan.deployment import proposed
from raypd.plan.traffic import Traffic
from raypd.plan.verdict import Verdict, judge
from unit.plan.samples import INSTANCES, engine_on, known

LONG = Traffic(10_000, 1000, rate=20, itl=0.02)


def verdict(
    traffic: Traffic,
    name: str = "openai/gpt-oss-120b",
    instance: str = "p5.48xlarge",
    tensor: int = 4,
    replicas: tuple[int, int] = (4, 4),
    context: int = 16_384,
    fabric: str | None = None,
) -> Verdict:
    shape = known(name)
    deployment = proposed(
        instance, INSTANCES[instance], engine_on(instance, tensor), context, "", replicas
    )
    if fabric:
        deployment = replace(deployment, fabric=fabric)
    numbers = assess(shape, deployment, traffic)
    return judge(shape, deployment, numbers, traffic, INSTANCES, cost.read_prices(None))


def measurements(found: Verdict) -> set[str | None]:
    return {reason.measurement for reason in found.reasons}


def test_long_prompts_a_tight_itl_and_rdma_are_for_p_d() -> None:
    found = verdict(LONG)
    assert found.choice == "disaggregated"
    assert {"balance", "prompts", "load"} <= measurements(found)


@pytest.mark.parametrize(
    ("traffic", "other", "measurement"),
    [
        (LONG, {"fabric": "tcp"}, "fabric"),
        (replace(LONG, input=500), {}, "prompts"),
        (replace(LONG, input=3000), {}, "prompts"),
        (replace(LONG, rate=0.05), {}, "load"),
        (replace(LONG, itl=5.0), {}, "throughput"),
    ],
)
def test_each_reason_against_p_d_alone_decides(traffic, other, measurement) -> None:
    found = verdict(traffic, **other)
    assert found.choice == "aggregated"
    assert measurement in measurements(found)


def test_two_engines_cannot_be_split_one_to_seven() -> None:
    model = {"name": "Qwen/Qwen3.5-9B", "instance": "g6.8xlarge", "tensor": 1, "context": 4096}
    found = verdict(Traffic(2000, 300), replicas=(1, 1), **model)
    assert (found.choice, "balance" in measurements(found)) == ("aggregated", True)
    assert verdict(Traffic(2000, 300), replicas=(1, 7), **model).choice == "disaggregated"


def test_a_type_without_gpudirect_is_told() -> None:
    traffic = Traffic(2000, 300, itl=0.15)
    found = verdict(traffic, "Qwen/Qwen3.5-9B", "g6.8xlarge", 1, context=4096)
    assert found.choice == "disaggregated"
    assert any("GPUDirect" in reason.text for reason in found.reasons)
    assert not any("GPUDirect" in reason.text for reason in verdict(LONG).reasons)


def test_a_model_larger_than_a_node_wants_a_bigger_card_where_that_is_cheaper() -> None:
    found = verdict(Traffic(2000, 300), "Qwen/Qwen2.5-14B-Instruct", "g6.8xlarge", 1, context=8192)
    assert found.choice == "bigger-card"
    assert "g6e.xlarge" in found.advice


def test_several_nodes_where_no_single_one_holds_it() -> None:
    shape = replace(known("Qwen/Qwen2.5-72B-Instruct"), rest=2_000_000_000_000)
    deployment = proposed(
        "p6-b300.48xlarge",
        INSTANCES["p6-b300.48xlarge"],
        engine_on("p6-b300.48xlarge", 8),
        8192,
        "",
    )
    numbers = assess(shape, deployment, Traffic(2000, 300))
    found = judge(shape, deployment, numbers, Traffic(2000, 300), INSTANCES, cost.read_prices(None))
    assert found.choice == "multinode"
    assert "pipeline" in found.advice


def test_every_measurement_has_its_source_and_a_use() -> None:
    known_ones = load("plan/measurements.yaml")
    assert all(entry["text"] and entry["source"] for entry in known_ones.values())
    used = measurements(verdict(LONG)) | measurements(verdict(replace(LONG, itl=5.0)))
    used |= measurements(verdict(LONG, fabric="tcp"))
    assert set(known_ones) == used - {None}
