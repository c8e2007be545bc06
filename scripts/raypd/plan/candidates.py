"""A model on every instance type that holds it, cheapest tokens first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raypd.plan import memory
from raypd.plan.assess import RoleNumbers, role_numbers
from raypd.plan.cost import Prices, per_million_tokens
from raypd.plan.deployment import Role
from raypd.plan.engine import Engine, assumed, batch_defaults, card_of
from raypd.plan.shape import ModelShape
from raypd.plan.traffic import Traffic


@dataclass(frozen=True)
class Candidate:
    """A node full of aggregated engines: requests/s of the node, dollars an hour (None: not known) and
    for a million tokens; `keeps` when one engine keeps the targets that were given.
    """

    numbers: RoleNumbers
    served: float
    dollars: float | None
    per_million: float
    keeps: bool


def best_on(
    shape: ModelShape,
    name: str,
    facts: Mapping[str, Any],
    context: int,
    traffic: Traffic,
    prices: Prices,
) -> Candidate | None:
    """The model on a node full of engines: of all tensor parallel sizes that hold it, the one that
    keeps the targets and serves most. None when not even all cards hold it.
    """
    card = card_of(facts["gpu"]) if facts["gpu"]["count"] else None
    if card is None:
        return None
    tokens, seqs = batch_defaults(card)
    found = []
    for tensor in memory.tensor_sizes(shape, facts["gpu"]["count"]):
        engine = Engine(card, tensor=tensor, max_seqs=seqs, batched_tokens=tokens)
        if memory.concurrency(shape, engine, context):
            found.append(
                _candidate(shape, Role("engine", engine, name, facts), context, traffic, prices)
            )
    return max(found, key=lambda one: (one.keeps, one.served), default=None)


def _candidate(
    shape: ModelShape, role: Role, context: int, traffic: Traffic, prices: Prices
) -> Candidate:
    numbers = role_numbers(shape, role, traffic, context)
    count = role.facts["gpu"]["count"] // role.engine.cards
    seconds = traffic.input / numbers.prompt_rate
    seconds += traffic.output / numbers.decode_rate if numbers.batch else math.inf
    served = count * assumed("busy") / seconds
    dollars = prices.per_hour.get(role.instance)
    return Candidate(
        numbers,
        served,
        dollars,
        per_million_tokens(dollars, served * traffic.tokens) if dollars else math.inf,
        numbers.batch > 0
        and (traffic.ttft is None or numbers.prompt + numbers.step <= traffic.ttft),
    )


def candidates(
    shape: ModelShape,
    context: int,
    traffic: Traffic,
    instances: Mapping[str, Any],
    prices: Prices,
) -> list[Candidate]:
    """Those that hold it, the cheapest of each card and engine size: the ones that keep the targets
    first, then by what a million tokens cost.
    """
    every = [
        best_on(shape, name, facts, context, traffic, prices) for name, facts in instances.items()
    ]
    found = [one for one in every if one is not None]
    found.sort(key=lambda c: (not c.keeps, c.per_million, c.dollars or math.inf))
    first: dict[Engine, Candidate] = {}
    for one in found:
        first.setdefault(one.numbers.role.engine, one)
    return list(first.values())
