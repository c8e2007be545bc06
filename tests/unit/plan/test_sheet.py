"""Each number's formula gives the number."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from raypd.plan import cost
from raypd.plan.assess import assess
from raypd.plan.deployment import Deployment, Role, proposed
from raypd.plan.shape import ModelShape, shape_of
from raypd.plan.sheet import Number, sections
from raypd.plan.traffic import Traffic
from unit.plan.samples import DEEPSEEK_V3, INSTANCES, engine_on, known

CASES = [
    ("Qwen/Qwen3.5-9B", "g6.8xlarge", 1, Traffic(2000, 300)),
    ("Qwen/Qwen3-8B", "g6.xlarge", 1, Traffic(2000, 300, 0.2, 2.0, 0.1)),
    ("openai/gpt-oss-120b", "p5.48xlarge", 4, Traffic(8000, 600, 30, 0.5, 0.02)),
    ("Qwen/Qwen3-32B", "g6.8xlarge", 1, Traffic(2000, 300)),  # does not fit
    ("DeepSeek-V3", "p5en.48xlarge", 8, Traffic(3000, 1000, 1)),
]


def shape_named(name: str) -> ModelShape:
    return shape_of(DEEPSEEK_V3, name) if name == "DeepSeek-V3" else known(name)


def numbers_of(shape: ModelShape, deployment: Deployment, traffic: Traffic) -> list[Number]:
    assessed = assess(shape, deployment, traffic)
    parts = sections(shape, deployment, assessed, traffic, cost.read_prices(None), INSTANCES)
    return [number for part in parts for number in part.numbers]


def evaluated(figures: str) -> float:
    names = {"min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "float": float}
    return eval(figures, {"__builtins__": {}}, names)


@pytest.mark.parametrize(("name", "instance", "tensor", "traffic"), CASES)
def test_figures_give_the_value(name: str, instance: str, tensor: int, traffic: Traffic) -> None:
    shape, engine = shape_named(name), engine_on(instance, tensor)
    apart = proposed(instance, INSTANCES[instance], engine, 10_000, "m7i.xlarge")
    both = Deployment(
        "aggregated",
        (Role("engine", replace(engine, pipeline=2), instance, INSTANCES[instance], 2, pods=2),),
        10_000,
        "efa",
        "",
    )
    for deployment in (apart, both):
        for number in numbers_of(shape, deployment, traffic):
            assert evaluated(number.figures) == pytest.approx(number.value, rel=1e-6), number.key


def test_keys_are_unique_and_what_an_assumption_is_in_is_marked() -> None:
    name, instance, tensor, traffic = CASES[0]
    deployment = proposed(
        instance, INSTANCES[instance], engine_on(instance, tensor), 4096, "m7i.xlarge"
    )
    numbers = numbers_of(known(name), deployment, traffic)
    keys = [number.key for number in numbers]
    assert len(set(keys)) == len(keys)
    certain = {number.key for number in numbers if not number.estimate}
    assert {"weights", "kvPerToken", "perHour", "wire.promptBytes", "quota.L-DB2E81BA"} <= certain
    assert not certain & {"ttft", "capacity", "decode.room", "wire.rate", "perMillionTokens"}
