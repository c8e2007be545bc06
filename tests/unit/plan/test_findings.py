"""Values against the arithmetic: each finding, and its neighbour that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raypd.plan.assess import assess
from raypd.plan.deployment import proposed
from raypd.plan.findings import check
from raypd.plan.traffic import Traffic
from raypd.report import Finding
from unit.plan.samples import INSTANCES, engine_on, known


def found(
    name: str = "Qwen/Qwen3-8B",
    instance: str = "g6e.8xlarge",
    traffic: Traffic | None = None,
    context: int = 4096,
    interfaces: int | None = None,
    **settings: float,
) -> dict[str, Finding]:
    traffic = traffic or Traffic(2000, 300)
    engine = engine_on(instance, **settings)
    deployment = proposed(instance, INSTANCES[instance], engine, context, "")
    if interfaces is not None:
        roles = tuple(replace(role, interfaces=interfaces) for role in deployment.roles)
        deployment = replace(deployment, roles=roles)
    shape = known(name)
    return {
        f.code: f for f in check(shape, deployment, assess(shape, deployment, traffic), traffic)
    }


def test_what_fits_gives_nothing() -> None:
    assert found() == {}


def test_weights_that_do_not_fit() -> None:
    finding = found("Qwen/Qwen2.5-14B-Instruct", "g6.8xlarge")["RPD701"]
    assert finding.path in ("prefill.parallelism", "decode.parallelism")
    assert "14.8 GB" not in finding.message
    assert "29.5 GB" in finding.message
    assert found("Qwen/Qwen2.5-14B-Instruct", "g6.12xlarge", tensor=2) == {}


def test_a_context_that_does_not_fit_names_the_largest_that_does() -> None:
    finding = found("Qwen/Qwen3-8B", "g6.8xlarge", context=40_960)["RPD702"]
    largest = int(finding.remedy.split()[0])
    assert finding.path == "model.maxModelLen"
    assert "RPD702" not in found("Qwen/Qwen3-8B", "g6.8xlarge", context=largest)
    assert "RPD702" in found("Qwen/Qwen3-8B", "g6.8xlarge", context=largest + 1)


def test_room_for_one_request_only() -> None:
    finding = found("Qwen/Qwen3-8B", "g6.8xlarge", context=15_000)["RPD703"]
    half = int(finding.remedy.split()[0])
    assert found("Qwen/Qwen3-8B", "g6.8xlarge", context=half) == {}


def test_tcp_is_told_beside_what_it_costs() -> None:
    finding = found(instance="g6e.4xlarge")["RPD711"]
    assert "0.6 GB/s" in finding.message


def test_a_wire_slower_than_prefill() -> None:
    slow = found("Qwen/Qwen3-32B", "p5.48xlarge", interfaces=1, tensor=8)
    assert "RPD712" in slow
    assert found("Qwen/Qwen3-32B", "p5.48xlarge", interfaces=32, tensor=8) == {}


def test_too_few_engines() -> None:
    finding = found(traffic=Traffic(2000, 300, rate=20))["RPD713"]
    assert finding.path.endswith(".replicas")
    assert int(finding.remedy.split(",")[0]) > 1
    assert found(traffic=Traffic(2000, 300, rate=0.2)) == {}


@pytest.mark.parametrize(("ttft", "codes"), [(0.05, {"RPD714"}), (2.0, set())])
def test_a_first_token_out_of_reach(ttft: float, codes: set[str]) -> None:
    assert set(found(traffic=Traffic(2000, 300, ttft=ttft))) == codes


@pytest.mark.parametrize(("itl", "codes"), [(0.01, {"RPD715"}), (0.1, set())])
def test_tokens_out_of_reach(itl: float, codes: set[str]) -> None:
    assert set(found(traffic=Traffic(2000, 300, itl=itl))) == codes


def test_what_does_not_fit_is_not_asked_how_fast_it_is() -> None:
    traffic = Traffic(2000, 300, rate=100, ttft=0.001, itl=0.001)
    assert set(found("Qwen/Qwen3-32B", "g6.8xlarge", traffic)) == {"RPD701"}
