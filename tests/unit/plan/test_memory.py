"""What a card holds, and the laws of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.plan import memory
from raypd.plan.shape import shape_of
from unit.plan.samples import DEEPSEEK_V3, INSTANCES, MODELS, engine_on, known

GPU_TYPES = [name for name, facts in INSTANCES.items() if facts["gpu"]["count"]]
MODEL = st.sampled_from(list(MODELS)).map(known)


def test_the_parts_are_the_whole() -> None:
    shape, engine = known("Qwen/Qwen3.5-9B"), engine_on("g6.8xlarge")
    parts = memory.weights(shape, engine) + memory.reserve(shape, engine)
    assert parts + memory.kv_room(shape, engine) == pytest.approx(memory.budget(engine))


def test_the_reserve_is_near_what_vllm_measured() -> None:
    """Llama-3-8B with 8,192 tokens a step and 256 sequences: 1.26 GiB of activations (vLLM PR 10511)."""
    engine = engine_on("p5.4xlarge", batched_tokens=8192, max_seqs=256)
    measured = (1.26 + 0.5) * 2**30
    reserve = memory.reserve(known("meta-llama/Llama-3.1-8B-Instruct"), engine)
    assert reserve == pytest.approx(measured, rel=0.15)


def test_the_reference_deployment_fits_and_fourteen_billion_do_not() -> None:
    engine = engine_on("g6.8xlarge")
    assert memory.concurrency(known("Qwen/Qwen3.5-9B"), engine, 4096) >= 2
    assert memory.kv_room(known("Qwen/Qwen2.5-14B-Instruct"), engine) < 0
    assert memory.largest_context(known("Qwen/Qwen2.5-14B-Instruct"), engine) == 0


def test_mla_is_copied_and_heads_are_split_down_to_one() -> None:
    latent = shape_of(DEEPSEEK_V3, "DeepSeek-V3")
    one, eight = engine_on("p5.48xlarge"), engine_on("p5.48xlarge", tensor=8)
    assert memory.kv_per_token(latent, one) == memory.kv_per_token(latent, eight)
    grouped = known("Qwen/Qwen3.5-9B")  # 4 KV heads
    assert memory.kv_per_token(grouped, eight) == memory.kv_per_token(grouped, one) / 4


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.integers(1, 100_000))
def test_more_cards_never_hold_fewer_requests(shape, instance: str, tokens: int) -> None:
    sizes = [memory.concurrency(shape, engine_on(instance, tensor=t), tokens) for t in (1, 2, 4, 8)]
    assert sizes == sorted(sizes)
    stages = [memory.concurrency(shape, engine_on(instance, pipeline=p), tokens) for p in (1, 2, 4)]
    assert stages == sorted(stages)


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.integers(1, 100_000), st.integers(1, 100_000))
def test_longer_requests_never_fit_more_often(shape, instance: str, tokens: int, more: int) -> None:
    engine = engine_on(instance)
    longer = memory.concurrency(shape, engine, tokens + more)
    assert longer <= memory.concurrency(shape, engine, tokens)


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.sampled_from([1, 2, 4, 8]))
def test_the_longest_request_fits_and_one_token_more_does_not(shape, instance, tensor) -> None:
    engine = engine_on(instance, tensor=tensor)
    largest = memory.largest_context(shape, engine)
    if largest:
        assert memory.concurrency(shape, engine, largest) >= 1
    if largest < shape.max_context:
        assert memory.concurrency(shape, engine, largest + 1) == 0


@settings(deadline=None)
@given(MODEL, st.sampled_from(GPU_TYPES), st.integers(1, 30_000))
def test_the_smallest_tensor_size_is_the_smallest(shape, instance: str, tokens: int) -> None:
    engine = engine_on(instance)
    found = memory.smallest_tensor(shape, engine, tokens, 8)
    for size in memory.tensor_sizes(shape, 8):
        fits = memory.concurrency(shape, replace(engine, tensor=size), tokens) >= 1
        assert fits == (found is not None and size >= found)


def test_a_cache_of_half_the_bytes_holds_twice_the_tokens() -> None:
    shape, engine = known("Qwen/Qwen3-8B"), engine_on("g6e.8xlarge")
    shape = replace(shape, max_context=2**30)
    half = memory.largest_context(shape, replace(engine, kv_bytes=1))
    assert half == pytest.approx(2 * memory.largest_context(shape, engine), abs=1)
