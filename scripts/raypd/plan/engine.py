"""One engine: the cards it runs on, and how the model is laid over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raypd.data import load

GIGA = 1e9
GIB = 2**30
MIB = 2**20


@dataclass(frozen=True)
class Card:
    """A GPU by its datasheet: dense TFLOPS, GB/s (1e9) of its memory and of its link to a neighbour."""

    model: str
    memory_mib: int
    bf16_tflops: float
    fp8_tflops: float
    memory_gbps: float
    link_gbps: float
    link: str


@dataclass(frozen=True)
class Engine:
    """`tensor` x `pipeline` cards as one vLLM engine, with the settings that take memory."""

    card: Card
    tensor: int = 1
    pipeline: int = 1
    utilization: float = 0.9
    max_seqs: int = 256
    batched_tokens: int = 2048
    kv_bytes: float = 2

    @property
    def cards(self) -> int:
        return self.tensor * self.pipeline


def assumed(*path: str) -> Any:
    """A number of data/plan/assumptions.yaml."""
    value = load("plan/assumptions.yaml")
    for key in path:
        value = value[key]
    return value


def card_of(gpu: dict[str, Any]) -> Card | None:
    """The card behind `gpu` of an entry of instances.yaml; None for one whose figures are not known."""
    for entry in load("plan/cards.yaml"):
        if (entry["model"], entry["memoryMiB"]) == (gpu["model"], gpu["memoryMiB"]):
            return Card(
                entry["model"],
                entry["memoryMiB"],
                entry["bf16TFLOPS"],
                entry["fp8TFLOPS"],
                entry["memoryGBps"],
                entry["linkGBps"],
                entry["link"],
            )
    return None


def batch_defaults(card: Card) -> tuple[int, int]:
    """vLLM's own max_num_batched_tokens and max_num_seqs on this card."""
    defaults = assumed("batchDefaults")
    large = card.memory_mib / 1024 >= defaults["largeCardGiB"] and card.model != "A100"
    chosen = defaults["large" if large else "small"]
    return chosen["batchedTokens"], chosen["seqs"]
