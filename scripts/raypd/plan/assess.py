"""A deployment under a traffic: every number that the sheet shows and the verdict judges by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raypd.plan import memory, rates, traffic, wire
from raypd.plan.deployment import DISAGGREGATED, Deployment, Role
from raypd.plan.engine import assumed
from raypd.plan.shape import ModelShape, request_bytes
from raypd.plan.traffic import Traffic


@dataclass(frozen=True)
class RoleNumbers:
    """One engine of a role. Bytes are those of one card, times are seconds, `full` counts requests of
    the context length, `batch` those of the traffic that decode together; `step` is 0 where none fits.
    """

    role: Role
    budget: float
    weights: float
    reserve: float
    room: float
    per_token: float
    full_bytes: float
    largest: int
    full: int
    prompt: float
    prompt_rate: float
    batch: int
    step: float
    decode_rate: float
    chunk: float


@dataclass(frozen=True)
class Assessment:
    """The roles, the wire between them, and what a client sees. Rates are requests a second; `wait`,
    `ttft` and `itl` are seconds, `itl_prompt` the one while a prompt is computed on the same card.
    `prefill_share` and `decode_share` are engine seconds of one request in each role, and
    `capacity_aggregated` is what the same engines would serve if each did both.
    """

    roles: tuple[RoleNumbers, ...]
    prompt_bytes: float
    wire: float
    carried: float
    transfer: float
    prefill_share: float
    decode_share: float
    capacity_prefill: float
    capacity_decode: float
    capacity_wire: float
    capacity: float
    capacity_aggregated: float
    needed: dict[str, int | None]
    wait: float
    ttft: float
    itl: float
    itl_prompt: float

    @property
    def prefill(self) -> RoleNumbers:
        return self.roles[0]

    @property
    def decode(self) -> RoleNumbers:
        return self.roles[-1]


def role_numbers(shape: ModelShape, role: Role, load: Traffic, max_context: int) -> RoleNumbers:
    """What one engine of a role holds and does."""
    engine = role.engine
    batch = rates.best_batch(shape, engine, load.tokens, load.mean_context, load.itl)
    step = rates.step_seconds(shape, engine, batch, load.mean_context) if batch else 0.0
    return RoleNumbers(
        role=role,
        budget=memory.budget(engine),
        weights=memory.weights(shape, engine),
        reserve=memory.reserve(shape, engine),
        room=memory.kv_room(shape, engine),
        per_token=memory.kv_per_token(shape, engine),
        full_bytes=memory.request(shape, engine, max_context),
        largest=memory.largest_context(shape, engine),
        full=memory.concurrency(shape, engine, max_context),
        prompt=rates.prefill_seconds(shape, engine, load.input),
        prompt_rate=rates.prefill_rate(shape, engine, load.input),
        batch=batch,
        step=step,
        decode_rate=batch / step if batch else 0.0,
        chunk=rates.prefill_seconds(shape, engine, min(engine.batched_tokens, load.input)),
    )


def assess(shape: ModelShape, deployment: Deployment, load: Traffic) -> Assessment:
    """All numbers of a deployment under a traffic."""
    roles = tuple(role_numbers(shape, r, load, deployment.max_context) for r in deployment.roles)
    first, last = roles[0], roles[-1]
    apart = deployment.mode == DISAGGREGATED
    kv_bytes = first.role.engine.kv_bytes
    prompt_bytes = request_bytes(shape, load.input, kv_bytes)
    rate = min(first.role.wire, last.role.wire) if apart else 0.0
    transfer = wire.transfer_seconds(shape, rate, load.input, kv_bytes) if rate else 0.0
    prefill_share = load.input / first.prompt_rate
    decode_share = load.output / last.decode_rate if last.decode_rate else math.inf
    busy = assumed("busy")
    if apart:
        prefill_rate = first.role.replicas * busy / prefill_share
        decode_rate = last.role.replicas * busy / decode_share
        both = min(r.role.replicas * r.role.wire for r in roles)
        wire_rate = both / prompt_bytes
        capacity = min(prefill_rate, decode_rate, wire_rate)
    else:
        capacity = _both(first, load)
        prefill_rate = decode_rate = capacity
        wire_rate = math.inf
    beside = first.prompt + transfer + last.step
    needed, wait = _needed(load, first, last, apart, prefill_share, decode_share, beside)
    return Assessment(
        roles=roles,
        prompt_bytes=prompt_bytes,
        wire=rate,
        carried=wire.tokens_carried(shape, rate, load.input, kv_bytes) if rate else math.inf,
        transfer=transfer,
        prefill_share=prefill_share,
        decode_share=decode_share,
        capacity_prefill=prefill_rate,
        capacity_decode=decode_rate,
        capacity_wire=wire_rate,
        capacity=capacity,
        capacity_aggregated=sum(_both(role, load) for role in roles),
        needed=needed,
        wait=wait,
        ttft=wait + beside,
        itl=last.step,
        itl_prompt=last.step if apart else last.step + last.chunk,
    )


def _both(numbers: RoleNumbers, load: Traffic) -> float:
    """Requests a second of all engines of a role when each computes prompts and writes answers."""
    if not numbers.decode_rate:
        return 0.0
    seconds = load.input / numbers.prompt_rate + load.output / numbers.decode_rate
    return numbers.role.replicas * assumed("busy") / seconds


def _needed(
    load: Traffic,
    first: RoleNumbers,
    last: RoleNumbers,
    apart: bool,
    prefill_share: float,
    decode_share: float,
    beside: float,
) -> tuple[dict[str, int | None], float]:
    """Engines of each role for the traffic's rate (None: not even many would do), and the mean wait in
    front of the replicas there are.
    """
    if load.rate is None:
        return {}, 0.0
    name, replicas = first.role.name, first.role.replicas
    if math.isinf(decode_share) and not apart:
        return {name: None}, math.inf
    count = traffic.engines_for_ttft(load.rate, prefill_share, beside, load.ttft)
    wait = traffic.waiting_seconds(load.rate, prefill_share, replicas)
    if apart:
        served = math.isfinite(decode_share)
        answers = traffic.engines(load.rate, decode_share) if served else None
        return {name: count, last.role.name: answers}, wait
    # A prompt joins the batch that is being answered, so it waits behind other prompts alone, as long as
    # the engines keep up with prompts and answers together.
    share = prefill_share + decode_share
    if load.rate * share >= replicas:
        wait = math.inf
    return {name: count and max(count, traffic.engines(load.rate, share))}, wait
