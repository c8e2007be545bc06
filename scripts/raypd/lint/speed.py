"""What works and is known to be slow (RPD380 to RPD389), by the figures of the chart's
files/transport.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

from raypd.lint.fabric import homes_of
from raypd.lint.subject import Check, Group, Subject, mapping, warning
from raypd.render.chart import default_chart, tables
from raypd.report import Finding

_ON = {"on", "yes", "y", "1"}  # UCX 1.21, ucs/config/parser.c
_CUDA_IPC = {"cuda_ipc", "cuda", "all"}
_SHOWN = (
    131072  # bytes of the descriptor whose figures are told: blocks of 32 tokens of an 8B model
)

_VLLM_BLOCK = 16  # tokens on CUDA, if vLLM is told nothing (vLLM 0.26, config/cache.py)


@cache
def transport() -> dict[str, dict[str, Any]]:
    """The table of paths, and of what is best moved over them."""
    return tables(default_chart(), "transport")["transport"]


def reads_between_gpus_of_one_host(subject: Subject) -> Iterator[Finding]:
    """Engines that may meet on a host, and whose UCX is not let read the other's GPU memory."""
    if not subject.pair or any(e.extra.get("backends") != ["UCX"] for e in subject.pair):
        return
    prefill, decode = ([g for g in homes_of(subject, e) if g.gpus] for e in subject.pair)
    meeting = [pair for pair in product(prefill, decode) if _may_meet(*pair)]
    for group in {id(g): g for pair in meeting for g in pair}.values():
        for name, written, wanted in _slow(group):
            yield warning(
                "RPD380",
                f"{group.env_path}.{name}",
                f"`{name}` is {written}, and prefill and decode may meet on one host: UCX then reads "
                f"the other's GPU memory by TCP, {_figures()}.",
                f"{wanted} in both roles, or an anti-affinity that keeps them apart.",
            )


def moves_large_pieces(subject: Subject) -> Iterator[Finding]:
    """Blocks of few tokens between GPUs over UCX; what a connector makes of the layers of a hybrid model
    is not judged."""
    best = transport()["blockSize"].get((subject.model or {}).get("kind"))
    if not subject.pair or not best:
        return
    for engine in subject.pair:
        written = engine.kwargs.get("block_size")
        tokens = written if isinstance(written, int) else _VLLM_BLOCK
        figures = best["measured"]
        if (
            engine.extra.get("backends") == ["UCX"]
            and any(group.gpus for group in homes_of(subject, engine))
            and tokens <= min(figures)
        ):
            yield warning(
                "RPD381",
                f"{engine.path}.engine_kwargs.block_size",
                f"Blocks of {tokens} tokens{'' if written else ', as vLLM takes if told nothing'}: each "
                f"layer of each block is a read of its own, {figures[min(figures)]:g} GB/s where blocks of "
                f"{best['tokens']} gave {figures[best['tokens']]:g}.",
                f"`block_size: {best['tokens']}` in both roles (the chart's `model.blockSize: auto`), unless "
                "prompts share beginnings shorter than that.",
            )


def _slow(group: Group) -> Iterator[tuple[str, str, str]]:
    """Variables of the group that keep UCX from CUDA IPC: name, what it is, what to write."""
    for name, value in transport()["paths"]["sameHostPcie"]["env"].items():
        written = group.env.get(name, {})
        if "valueFrom" not in written and str(written.get("value", "")).lower() not in _ON:
            yield name, f"`{written['value']}`" if written else "not set", f"`{name}: {value}`"
    written = str(group.env.get("UCX_TLS", {}).get("value", ""))
    listed = {part.strip().partition(":")[0] for part in written.lstrip("^").split(",")}
    if written and bool(listed & _CUDA_IPC) == written.startswith("^"):
        wanted = "no `cuda` or `cuda_ipc`" if written.startswith("^") else "`cuda_ipc` among"
        yield "UCX_TLS", f"`{written}`", f"{wanted} `UCX_TLS`"


def _figures() -> str:
    path = transport()["paths"]["sameHostPcie"]
    return f"{path['without'][_SHOWN]:g} GB/s where CUDA IPC gave {path['measured'][_SHOWN]:g}"


def _may_meet(one: Group, other: Group) -> bool:
    """Nothing in the pods keeps the two off one node."""
    for group in (one, other):
        if mapping(mapping(group.pod.get("affinity")).get("podAntiAffinity")):
            return False
    labels = mapping(one.pod.get("nodeSelector")), mapping(other.pod.get("nodeSelector"))
    return all(labels[0][key] == labels[1][key] for key in labels[0].keys() & labels[1].keys())


CHECKS: list[Check] = [reads_between_gpus_of_one_host, moves_large_pieces]
