"""How fast an engine computes: a roofline of the card's datasheet, at the efficiency that
data/plan/assumptions.yaml states. Everything here is an estimate; times are seconds.
"""

from __future__ import annotations

from raypd.plan import memory
from raypd.plan.engine import GIGA, Engine, assumed
from raypd.plan.shape import ModelShape

TERA = 1e12


def flops(shape: ModelShape, engine: Engine) -> float:
    """Reached operations a second of the engine's tensor-parallel cards."""
    card = engine.card
    tflops = card.fp8_tflops if shape.bits_rest == 8 and card.fp8_tflops else card.bf16_tflops
    return tflops * TERA * assumed("efficiency", "compute") * engine.tensor


def bandwidth(engine: Engine) -> float:
    """Reached bytes a second of one card's memory."""
    return engine.card.memory_gbps * GIGA * assumed("efficiency", "memory")


def prompt_operations(shape: ModelShape, tokens: float) -> float:
    """Operations of one prompt: two for each weight and token, and causal attention's square."""
    square = 2 * shape.attention_layers * shape.score_width * tokens**2
    return 2 * shape.computed * tokens + square


def all_reduce_seconds(shape: ModelShape, engine: Engine, tokens: float) -> float:
    """Two all-reduces in every layer between tensor-parallel cards; 0 for one card."""
    if engine.tensor == 1:
        return 0.0
    part = 2 * (engine.tensor - 1) / engine.tensor  # what a ring sends of the data
    moved = 2 * shape.layers * tokens * shape.hidden * 2 * part / (engine.card.link_gbps * GIGA)
    waits = 2 * shape.layers * assumed("allReduceMicroseconds", engine.card.link) * 1e-6
    return moved + waits


def step_weights(shape: ModelShape, engine: Engine, batch: float) -> float:
    """Bytes of weights that one card reads in a step: of the experts those that are picked."""
    picked = shape.expert_parameters * shape.touched_experts(batch) * shape.bits_experts
    read = shape.rest * shape.bits_rest + shape.embedding * shape.bits_plain + picked
    return read / 8 / engine.cards


def prefill_seconds(shape: ModelShape, engine: Engine, tokens: float) -> float:
    """One prompt on an idle engine: the slower of computing it and of reading the weights once."""
    compute = prompt_operations(shape, tokens) / flops(shape, engine)
    reading = step_weights(shape, engine, tokens) / bandwidth(engine) * engine.pipeline
    return max(compute, reading) + all_reduce_seconds(shape, engine, tokens)


def prefill_rate(shape: ModelShape, engine: Engine, tokens: float) -> float:
    """Prompt tokens a second of a busy engine; pipeline stages work on several prompts at once."""
    return tokens / prefill_seconds(shape, engine, tokens) * engine.pipeline


def step_seconds(shape: ModelShape, engine: Engine, batch: float, context: float) -> float:
    """One decode step: each of `batch` requests, `context` tokens long so far, gets one token."""
    at_once = batch / engine.pipeline  # each stage has its share of the batch under way
    read = step_weights(shape, engine, at_once)
    kept = context * memory.kv_per_token(shape, engine) + 2 * shape.state_bytes / engine.cards
    reading = (read + at_once * kept) / bandwidth(engine) * engine.pipeline
    head = shape.embedding
    compute = 2 * (shape.computed + head) * at_once / flops(shape, engine)
    overhead = assumed("stepMilliseconds") * 1e-3
    return max(reading, compute) + all_reduce_seconds(shape, engine, at_once) + overhead


def best_batch(
    shape: ModelShape, engine: Engine, tokens: float, context: float, itl: float | None
) -> int:
    """Most requests of `tokens` in all that fit, and whose step stays within `itl` seconds; 0: none."""
    high = min(memory.concurrency(shape, engine, tokens), engine.max_seqs)
    if itl is None or high == 0 or step_seconds(shape, engine, high, context) <= itl:
        return high
    low = 0  # the largest that keeps it, found by halving: a step only grows with its batch
    while high - low > 1:
        middle = (low + high) // 2
        if step_seconds(shape, engine, middle, context) <= itl:
            low = middle
        else:
            high = middle
    return low
