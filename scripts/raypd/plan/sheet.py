"""The numbers written down, each with its formula in words and in figures.

`figures` is arithmetic that Python can evaluate; a test does, so that no formula tells another story
than the number beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raypd.plan import cost, memory
from raypd.plan.assess import Assessment, RoleNumbers
from raypd.plan.cost import Prices
from raypd.plan.deployment import DISAGGREGATED, Deployment
from raypd.plan.engine import GIB, MIB, assumed
from raypd.plan.rates import (
    all_reduce_seconds,
    bandwidth,
    flops,
    prompt_operations,
    step_weights,
)
from raypd.plan.shape import ModelShape, kv_bytes_per_token
from raypd.plan.traffic import Traffic, engines, ratio


@dataclass(frozen=True)
class Number:
    """One number: `unit` is bytes, s, tokens/s and so on; `estimate` when an assumption is in it."""

    key: str
    label: str
    value: float
    unit: str
    words: str
    figures: str
    estimate: bool = False


@dataclass(frozen=True)
class Section:
    title: str
    numbers: list[Number]


def _n(value: float) -> str:
    return f"{value:.12g}" if math.isfinite(value) else "float('inf')"


def sections(
    shape: ModelShape,
    deployment: Deployment,
    numbers: Assessment,
    traffic: Traffic,
    prices: Prices,
    instances: Mapping[str, Any],
) -> list[Section]:
    """Everything, in the order in which it is read."""
    apart = deployment.mode == DISAGGREGATED
    parts = [Section("Model", model(shape, deployment.roles[0].engine.kv_bytes))]
    for role in numbers.roles:
        engine = role.role.engine
        title = f"{role.role.name.capitalize()}: {engine.cards} x {engine.card.model} of {role.role.instance}"
        rows = _memory(shape, role, deployment.max_context)
        if role.role.name != "decode":
            rows += _prefill(shape, role, traffic)
        if role.role.name != "prefill":
            rows += _decode(shape, role, traffic)
        parts.append(Section(title, rows))
    if apart:
        parts.append(Section("KV on the wire", _wire(numbers, traffic)))
    parts.append(Section("Traffic", _traffic(numbers, deployment, traffic)))
    parts.append(Section("Cost", _cost(deployment, numbers, traffic, prices, instances)))
    return parts


def model(shape: ModelShape, kv_bytes: float = 2) -> list[Number]:
    """The model's own numbers, which no card changes."""
    rows = [
        Number(
            "parameters",
            "parameters",
            shape.parameters,
            "",
            "embeddings + attention, dense and state layers + routed experts",
            f"{shape.embeddings} * {shape.embedding} + {shape.rest} + {shape.expert_parameters}",
        )
    ]
    if shape.experts:
        rows.append(
            Number(
                "activeParameters",
                "parameters that one token uses",
                shape.computed + shape.embedding,
                "",
                "attention and dense layers + its part of the routed experts + output embedding",
                f"{shape.rest} + {shape.expert_parameters} * {shape.experts_per_token} / {shape.experts}"
                f" + {shape.embedding}",
            )
        )
    rows += [
        Number(
            "weights",
            "weights",
            shape.weight_bytes,
            "bytes",
            "(embeddings and vision encoder x bits + other layers x bits + experts x bits) / 8",
            f"(({shape.embeddings} * {shape.embedding} + {shape.vision}) * {_n(shape.bits_plain)} + "
            f"{shape.rest} * {_n(shape.bits_rest)} + "
            f"{shape.expert_parameters} * {_n(shape.bits_experts)}) / 8",
        ),
        Number(
            "kvPerToken",
            "KV of a token",
            kv_bytes_per_token(shape, kv_bytes),
            "bytes",
            f"attention layers x {_kv_words(shape)} x bytes of a number",
            f"{shape.attention_layers} * {_kv_figures(shape)} * {_n(kv_bytes)}",
        ),
    ]
    if shape.state_bytes:
        rows.append(
            Number(
                "state",
                "state of a request",
                shape.state_bytes,
                "bytes",
                "state layers x (recurrent state + convolution's window), whatever the length",
                f"{shape.layers - shape.attention_layers} * "
                f"{_n(shape.state_bytes / (shape.layers - shape.attention_layers))}",
            )
        )
    return rows


def _kv_words(shape: ModelShape) -> str:
    return "latent and rotary width" if shape.kv_shared else "2 (K and V) x KV heads x head size"


def _kv_figures(shape: ModelShape) -> str:
    if shape.kv_shared:
        return str(shape.kv_width)
    return f"2 * {shape.kv_heads} * {shape.kv_width // 2 // shape.kv_heads}"


def _memory(shape: ModelShape, role: RoleNumbers, context: int) -> list[Number]:
    engine, activation = role.role.engine, assumed("activation")
    name = role.role.name
    split = 1 if shape.kv_shared else min(engine.tensor, shape.kv_heads)
    return [
        Number(
            f"{name}.budget",
            "memory for vLLM on each card",
            role.budget,
            "bytes",
            "card's MiB x what CUDA shows of them x gpu_memory_utilization",
            f"{engine.card.memory_mib} * {MIB} * {assumed('visibleMemory')} * {engine.utilization}",
            estimate=True,
        ),
        Number(
            f"{name}.weights",
            "weights on each card",
            role.weights,
            "bytes",
            "weights / (tensor x pipeline)",
            f"{_n(shape.weight_bytes)} / ({engine.tensor} * {engine.pipeline})",
        ),
        Number(
            f"{name}.reserve",
            "reserve: context, graphs, activations, sampling",
            role.reserve,
            "bytes",
            "fixed part + max_num_batched_tokens x activation widths x 2 bytes + max_num_seqs x "
            "vocabulary x bytes of sampling",
            f"{assumed('fixedReserveGiB')} * {GIB} + {engine.batched_tokens} * ({activation['hidden']} * "
            f"{shape.hidden} + {activation['intermediate']} * {shape.active_width} / {engine.tensor}) * 2"
            f" + {engine.max_seqs} * {shape.vocabulary} * {activation['samplingBytes']}",
            estimate=True,
        ),
        Number(
            f"{name}.room",
            "left for KV",
            role.room,
            "bytes",
            "memory for vLLM - weights - reserve",
            f"{_n(role.budget)} - {_n(role.weights)} - {_n(role.reserve)}",
            estimate=True,
        ),
        Number(
            f"{name}.largestContext",
            "longest request that fits",
            role.largest,
            "tokens",
            "(left - state) / KV of a token on each card, up to the model's own maximum",
            f"max(0, min({shape.max_context}, floor(({_n(role.room)} - {_n(shape.state_bytes)} / "
            f"{engine.cards}) / ({_n(kv_bytes_per_token(shape, engine.kv_bytes))} / {split} / "
            f"{engine.pipeline}))))"
            if role.per_token
            else f"{shape.max_context}",
            estimate=True,
        ),
        Number(
            f"{name}.concurrency",
            f"requests of {context:,} tokens at once",
            role.full,
            "",
            "left / (tokens x KV of a token + state)",
            f"max(0, floor({_n(role.room)} / {_n(role.full_bytes)}))",
            estimate=True,
        ),
    ]


def _prefill(shape: ModelShape, role: RoleNumbers, traffic: Traffic) -> list[Number]:
    engine, name = role.role.engine, role.role.name
    read = step_weights(shape, engine, traffic.input) * engine.pipeline
    reduce = all_reduce_seconds(shape, engine, traffic.input)
    return [
        Number(
            f"{name}.promptSeconds",
            f"a prompt of {traffic.input:,} tokens",
            role.prompt,
            "s",
            "max(operations / reached FLOPS, weights / reached bandwidth) + all-reduces; operations are "
            "2 x computed parameters x tokens + attention's 2 x layers x width x tokens squared, FLOPS "
            f"at {assumed('efficiency', 'compute'):.0%} of the datasheet",
            f"max({_n(prompt_operations(shape, traffic.input))} / {_n(flops(shape, engine))}, "
            f"{_n(read)} / {_n(bandwidth(engine))}) + {_n(reduce)}",
            estimate=True,
        ),
        Number(
            f"{name}.promptRate",
            "prompt tokens a second",
            role.prompt_rate,
            "tokens/s",
            "tokens / seconds x pipeline stages",
            f"{traffic.input} / {_n(role.prompt)} * {engine.pipeline}",
            estimate=True,
        ),
    ]


def _decode(shape: ModelShape, role: RoleNumbers, traffic: Traffic) -> list[Number]:
    engine, name = role.role.engine, role.role.name
    at_once = role.batch / engine.pipeline
    kept = (
        traffic.mean_context * role.per_token + 2 * shape.state_bytes / engine.cards
    ) * engine.pipeline
    read = step_weights(shape, engine, at_once) * engine.pipeline
    compute = 2 * (shape.computed + shape.embedding) * at_once / flops(shape, engine)
    reduce = all_reduce_seconds(shape, engine, at_once)
    overhead = assumed("stepMilliseconds") * 1e-3
    whole = memory.request(shape, engine, traffic.tokens)
    target = "" if traffic.itl is None else f" and keep {traffic.itl * 1e3:.0f} ms a step"
    return [
        Number(
            f"{name}.batch",
            "requests that decode together",
            role.batch,
            "",
            f"most requests of {traffic.tokens:,} tokens that fit, within max_num_seqs{target}",
            f"{role.batch}"
            if traffic.itl
            else f"min({engine.max_seqs}, max(0, floor({_n(role.room)} / {_n(whole)})))",
            estimate=True,
        ),
        Number(
            f"{name}.step",
            "one token for each of them",
            role.step,
            "s",
            "max((weights + batch x KV of half-way requests) / reached bandwidth, operations / reached "
            f"FLOPS) + all-reduces + overhead; bandwidth at {assumed('efficiency', 'memory'):.0%} of the "
            "datasheet",
            f"max(({_n(read)} + {_n(at_once)} * {_n(kept)}) / {_n(bandwidth(engine))}, {_n(compute)}) + "
            f"{_n(reduce)} + {_n(overhead)}"
            if role.batch
            else "0",
            estimate=True,
        ),
        Number(
            f"{name}.rate",
            "answer tokens a second",
            role.decode_rate,
            "tokens/s",
            "batch / step",
            f"{role.batch} / {_n(role.step)}" if role.batch else "0",
            estimate=True,
        ),
    ]


def _wire(numbers: Assessment, traffic: Traffic) -> list[Number]:
    prefill, decode = numbers.prefill.role, numbers.decode.role
    slower = min((prefill, decode), key=lambda role: role.wire)
    gbps = slower.facts["networkGbps"]
    if slower.interfaces:
        offered = slower.facts["efa"]["interfaces"]
        words = (
            "network x pod's part of the EFA interfaces x part that KV reaches, of the slower side"
        )
        figures = (
            f"{gbps} * min({slower.interfaces}, {offered}) / {offered} / 8 * 1e9 * "
            f"{assumed('efaEfficiency')}"
        )
    else:
        words = "one TCP flow of the slower side"
        figures = f"min({gbps}, {assumed('tcpFlowGbps')}) / 8 * 1e9"
    return [
        Number(
            "wire.promptBytes",
            f"KV of a prompt of {traffic.input:,} tokens",
            numbers.prompt_bytes,
            "bytes",
            "tokens x KV of a token + state",
            _n(numbers.prompt_bytes),
        ),
        Number("wire.rate", "the wire", numbers.wire, "bytes/s", words, figures, estimate=True),
        Number(
            "wire.carried",
            "prompt tokens a second that it carries",
            numbers.carried,
            "tokens/s",
            "tokens / (KV of the prompt / wire)",
            f"{traffic.input} / ({_n(numbers.prompt_bytes)} / {_n(numbers.wire)})",
            estimate=True,
        ),
        Number(
            "wire.seconds",
            "the KV of one prompt",
            numbers.transfer,
            "s",
            "KV of the prompt / wire",
            f"{_n(numbers.prompt_bytes)} / {_n(numbers.wire)}",
            estimate=True,
        ),
        Number(
            "wire.used",
            "of the wire that one busy prefill engine fills",
            numbers.prefill.prompt_rate / numbers.carried,
            "part",
            "prompt tokens computed / prompt tokens carried",
            f"{_n(numbers.prefill.prompt_rate)} / {_n(numbers.carried)}",
            estimate=True,
        ),
        Number(
            "wire.left",
            "what that leaves",
            max(0.0, 1 - numbers.prefill.prompt_rate / numbers.carried) * numbers.wire,
            "bytes/s",
            "wire x (1 - part in use)",
            f"max(0, 1 - {_n(numbers.prefill.prompt_rate)} / {_n(numbers.carried)}) * "
            f"{_n(numbers.wire)}",
            estimate=True,
        ),
    ]


def _traffic(numbers: Assessment, deployment: Deployment, traffic: Traffic) -> list[Number]:
    apart = deployment.mode == DISAGGREGATED
    first, last = numbers.prefill, numbers.decode
    shares = f"{_n(numbers.prefill_share)}", f"{_n(numbers.decode_share)}"
    busy = assumed("busy")
    if apart:
        words = f"least of prefill, decode and wire, engines busy for {busy:.0%} of the time"
        figures = (
            f"min({first.role.replicas} * {busy} / {shares[0]}, {last.role.replicas} * {busy} / "
            f"{shares[1]}, {_n(numbers.capacity_wire)})"
        )
    else:
        words = f"engines x {busy:.0%} of the time / (seconds of a prompt + of its answer)"
        figures = f"{first.role.replicas} * {busy} / ({shares[0]} + {shares[1]})"
    rows = [
        Number("capacity", "served", numbers.capacity, "requests/s", words, figures, estimate=True)
    ]
    if apart:
        each = " + ".join(
            f"{r.role.replicas} * {busy} / ({_n(traffic.input)} / {_n(r.prompt_rate)} + "
            f"{traffic.output} / {_n(r.decode_rate)})"
            for r in numbers.roles
            if r.decode_rate
        )
        rows.append(
            Number(
                "capacityAggregated",
                "served if each of these engines did both",
                numbers.capacity_aggregated,
                "requests/s",
                f"sum over engines of {busy} / (seconds of a prompt + of its answer)",
                each or "0",
                estimate=True,
            )
        )
    if apart and math.isfinite(numbers.decode_share):
        pair = ratio(numbers.prefill_share, numbers.decode_share)
        rows.append(
            Number(
                "ratio",
                f"prefill to decode engines, about {pair[0]} : {pair[1]}",
                numbers.prefill_share / numbers.decode_share,
                "",
                "engine seconds of a prompt / engine seconds of its answer",
                f"{shares[0]} / {shares[1]}",
                estimate=True,
            )
        )
    for name, count in numbers.needed.items():
        if count is not None:
            seconds = {
                "prefill": numbers.prefill_share,
                "decode": numbers.decode_share,
            }.get(name, numbers.prefill_share + numbers.decode_share)
            by_load = engines(traffic.rate or 0, seconds)
            least = f"max(1, ceil({_n(traffic.rate or 0)} * {_n(seconds)} / {busy} - 1e-9))"
            rows.append(
                Number(
                    f"needed.{name}",
                    f"{name} engines for {traffic.rate:g} requests/s",
                    count,
                    "",
                    f"requests/s x engine seconds / {busy}, rounded up; more where the queue would break "
                    "the time to first token",
                    least if count == by_load else f"{least} + {count - by_load}",
                    estimate=True,
                )
            )
    if last.batch:
        rows += [
            Number(
                "ttft",
                "time to first token" + (", without a queue" if traffic.rate is None else ""),
                numbers.ttft,
                "s",
                "wait + prompt + transfer + first step; wait is a queue of fixed service times (M/D/1)",
                f"{_n(numbers.wait)} + {_n(first.prompt)} + {_n(numbers.transfer)} + {_n(last.step)}",
                estimate=True,
            ),
            Number(
                "itl",
                "time between tokens",
                numbers.itl,
                "s",
                "one step of a full batch",
                _n(last.step),
                estimate=True,
            ),
        ]
        if not apart:
            rows.append(
                Number(
                    "itlWithPrompt",
                    "time between tokens while a prompt is computed",
                    numbers.itl_prompt,
                    "s",
                    "step + one chunk of max_num_batched_tokens",
                    f"{_n(last.step)} + {_n(last.chunk)}",
                    estimate=True,
                )
            )
    return rows


def _cost(
    deployment: Deployment,
    numbers: Assessment,
    traffic: Traffic,
    prices: Prices,
    instances: Mapping[str, Any],
) -> list[Number]:
    nodes = deployment.nodes
    rows = []
    hourly = cost.per_hour(nodes, prices)
    if hourly is not None:
        listed = " + ".join(f"{count} x {name}" for name, count in nodes.items())
        rows.append(
            Number(
                "perHour",
                f"an hour, on demand ({prices.region}, {prices.date})",
                hourly,
                "$",
                listed + "; control plane, NAT gateway and disks come on top",
                " + ".join(f"{count} * {prices.per_hour[name]}" for name, count in nodes.items()),
            )
        )
        served = min(numbers.capacity, traffic.rate or math.inf)
        if served:
            rows.append(
                Number(
                    "perMillionTokens",
                    "a million tokens, in and out",
                    cost.per_million_tokens(hourly, served * traffic.tokens),
                    "$",
                    "dollars an hour / (requests/s served x tokens of a request x 3600) x 1e6",
                    f"{_n(hourly)} / ({_n(served)} * {traffic.tokens} * 3600) * 1e6",
                    estimate=True,
                )
            )
    for code, vcpu in cost.quotas(nodes, instances).items():
        counted = [name for name in nodes if name in instances and instances[name]["quota"] == code]
        rows.append(
            Number(
                f"quota.{code}",
                f"vCPUs of quota {code}",
                vcpu,
                "",
                " + ".join(f"{nodes[name]} x {name}" for name in counted),
                " + ".join(f"{nodes[name]} * {instances[name]['vcpu']}" for name in counted),
            )
        )
    return rows
