"""What a card's memory holds: weights, reserve, and KV. All sizes are bytes of one card."""

from __future__ import annotations

import math
from dataclasses import replace

from raypd.plan.engine import GIB, MIB, Engine, assumed
from raypd.plan.shape import ModelShape


def budget(engine: Engine) -> float:
    """What vLLM takes of the card."""
    return engine.card.memory_mib * MIB * assumed("visibleMemory") * engine.utilization


def weights(shape: ModelShape, engine: Engine) -> float:
    """Weights on each card."""
    return shape.weight_bytes / engine.cards


def reserve(shape: ModelShape, engine: Engine) -> float:
    """Context, graphs, and the largest step's activations and sampling. An estimate."""
    activation = assumed("activation")
    widths = activation["hidden"] * shape.hidden
    widths += activation["intermediate"] * shape.active_width / engine.tensor
    return (
        assumed("fixedReserveGiB") * GIB
        + engine.batched_tokens * widths * 2
        + engine.max_seqs * shape.vocabulary * activation["samplingBytes"]
    )


def kv_room(shape: ModelShape, engine: Engine) -> float:
    """What is left for KV; negative when weights and reserve alone are too large."""
    return budget(engine) - weights(shape, engine) - reserve(shape, engine)


def kv_per_token(shape: ModelShape, engine: Engine) -> float:
    """KV of one token: heads are split over tensor-parallel cards down to one each, MLA is copied."""
    split = 1 if shape.kv_shared else min(engine.tensor, shape.kv_heads)
    return shape.attention_layers * shape.kv_width * engine.kv_bytes / split / engine.pipeline


def request(shape: ModelShape, engine: Engine, tokens: float) -> float:
    """What a request of so many tokens takes."""
    return tokens * kv_per_token(shape, engine) + shape.state_bytes / engine.cards


def largest_context(shape: ModelShape, engine: Engine) -> int:
    """Longest request that fits alone, in tokens, up to the model's own maximum; 0 when none does."""
    left = kv_room(shape, engine) - shape.state_bytes / engine.cards
    per_token = kv_per_token(shape, engine)
    if left < 0:
        return 0
    fits = math.floor(left / per_token) if per_token else shape.max_context
    return min(fits, shape.max_context)


def concurrency(shape: ModelShape, engine: Engine, tokens: float) -> int:
    """Requests of so many tokens that the card's KV memory holds at once (max_num_seqs aside)."""
    room = kv_room(shape, engine)
    return max(0, math.floor(room / request(shape, engine, tokens)))


def tensor_sizes(shape: ModelShape, cards: int) -> list[int]:
    """Tensor parallel sizes on so many cards: powers of two that divide the attention heads."""
    return [size for size in (1, 2, 4, 8) if size <= cards and shape.heads % size == 0]


def smallest_tensor(shape: ModelShape, engine: Engine, tokens: int, cards: int) -> int | None:
    """Fewest of `cards` that hold the model and one request of so many tokens; None: not even all."""
    fitting = (
        size
        for size in tensor_sizes(shape, cards)
        if concurrency(shape, replace(engine, tensor=size), tokens) >= 1
    )
    return next(fitting, None)
