"""The roofline: which limit is met, and the laws of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.plan import rates
from unit.plan.samples import INSTANCES, MODELS, engine_on, known

GPU_TYPES = [name for name, facts in INSTANCES.items() if facts["gpu"]["count"]]
MODEL = st.sampled_from(list(MODELS)).map(known)


def test_one_request_decodes_at_the_speed_of_the_weights() -> None:
    """15 GB read at 65 % of 300 GB/s, and the overhead of a step."""
    shape, engine = known("meta-llama/Llama-3.1-8B-Instruct"), engine_on("g6.8xlarge")
    read = shape.weight_bytes - 2 * shape.embedding  # the input embedding is looked up, not read
    expected = read / (300e9 * 0.65) + 1.5e-3
    assert rates.step_seconds(shape, engine, 1, 1) == pytest.approx(expected, rel=1e-3)


def test_a_long_prompt_is_computed_at_the_speed_of_the_tensor_cores() -> None:
    shape, engine = known("meta-llama/Llama-3.1-8B-Instruct"), engine_on("p5.4xlarge")
    expected = rates.prompt_operations(shape, 8192) / (989e12 * 0.5)
    assert rates.prefill_seconds(shape, engine, 8192) == pytest.approx(expected)


def test_fp8_weights_use_fp8_cores_where_the_card_has_them() -> None:
    from dataclasses import replace

    shape = replace(known("Qwen/Qwen3-8B"), bits_rest=8.0)
    hopper, ampere = engine_on("p5.4xlarge"), engine_on("g5.8xlarge")
    assert rates.flops(shape, hopper) > rates.flops(known("Qwen/Qwen3-8B"), hopper)
    assert rates.flops(shape, ampere) == rates.flops(known("Qwen/Qwen3-8B"), ampere)


def test_pipeline_stages_make_prompts_no_faster_but_more_of_them() -> None:
    shape = known("Qwen/Qwen2.5-14B-Instruct")
    one, two = engine_on("g6e.8xlarge"), engine_on("g6e.8xlarge", pipeline=2)
    assert rates.prefill_seconds(shape, two, 4000) == pytest.approx(
        rates.prefill_seconds(shape, one, 4000)
    )
    assert rates.prefill_rate(shape, two, 4000) == pytest.approx(
        2 * rates.prefill_rate(shape, one, 4000)
    )


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.integers(1, 50_000), st.integers(1, 50_000))
def test_a_longer_prompt_takes_longer(shape, instance: str, tokens: int, more: int) -> None:
    engine = engine_on(instance)
    assert rates.prefill_seconds(shape, engine, tokens + more) >= rates.prefill_seconds(
        shape, engine, tokens
    )


@settings(deadline=None)
@given(
    MODEL,
    st.sampled_from(GPU_TYPES),
    st.integers(1, 500),
    st.integers(0, 500),
    st.integers(0, 9000),
)
def test_a_larger_or_longer_batch_takes_longer(shape, instance, batch, more, context) -> None:
    engine = engine_on(instance, tensor=2)
    step = rates.step_seconds(shape, engine, batch, context)
    assert rates.step_seconds(shape, engine, batch + more, context) >= step > 0
    assert rates.step_seconds(shape, engine, batch, context + more) >= step


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.integers(1, 8000), st.floats(0.005, 1))
def test_the_best_batch_keeps_the_target_and_one_more_does_not(
    shape, instance, tokens, itl
) -> None:
    engine = engine_on(instance, tensor=2)
    most = rates.best_batch(shape, engine, tokens, tokens, None)
    best = rates.best_batch(shape, engine, tokens, tokens, itl)
    assert best <= most
    if best:
        assert rates.step_seconds(shape, engine, best, tokens) <= itl
    if best < most:
        assert rates.step_seconds(shape, engine, best + 1, tokens) > itl


def test_one_card_has_nobody_to_reduce_with() -> None:
    shape = known("Qwen/Qwen3-32B")
    assert rates.all_reduce_seconds(shape, engine_on("p5.48xlarge"), 1000) == 0
    nvlink = rates.all_reduce_seconds(shape, engine_on("p5.48xlarge", tensor=4), 1000)
    pcie = rates.all_reduce_seconds(shape, engine_on("g6e.12xlarge", tensor=4), 1000)
    assert 0 < nvlink < pcie


@pytest.mark.parametrize(("batch", "measured"), [(4, 3.72), (16, 4.45), (64, 7.36)])
def test_a_step_is_near_what_was_measured(batch: int, measured: float) -> None:
    """gpt-oss-120b on 8 x H100, 1,024 tokens in and out (SemiAnalysisAI/InferenceX issue 828): ms."""
    engine = engine_on("p5.48xlarge", tensor=8)
    step = rates.step_seconds(known("openai/gpt-oss-120b"), engine, batch, 1536) * 1e3
    assert 0.7 * measured < step < 1.3 * measured
