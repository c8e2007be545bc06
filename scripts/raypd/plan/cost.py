"""Nodes, their price, and the quota they count against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.data import load
from raypd.report import UsageError


@dataclass(frozen=True)
class Prices:
    """Dollars an hour by instance type, the day they were read, the region, and where from."""

    per_hour: Mapping[str, float]
    date: str
    region: str
    source: str


def read_prices(path: Path | None) -> Prices:
    """The price file given, else the one that comes with raypd. Raises UsageError."""
    origin = "the shipped prices" if path is None else f"--prices {path}"
    try:
        parsed = (
            load("plan/prices.yaml") if path is None else yaml_text.load(path.read_text("utf-8"))
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{origin} cannot be read as YAML: {error}") from error
    table = parsed.get("perHour") if isinstance(parsed, dict) else None
    problems = []
    if not isinstance(table, dict) or not table:
        problems.append("`perHour` must map instance types to dollars an hour")
        table = {}
    for name, price in table.items():
        if isinstance(price, bool) or not isinstance(price, (int, float)) or price <= 0:
            problems.append(f"`perHour.{name}` is {price!r}, and must be a number above 0")
    missing = [k for k in ("date", "region") if not (isinstance(parsed, dict) and parsed.get(k))]
    problems += [f"`{key}` is missing" for key in missing]
    if problems:
        raise UsageError(
            f"{origin} is no price file: {'; '.join(problems)}. docs/plan.md shows the form."
        )
    return Prices(
        table, str(parsed["date"]), str(parsed["region"]), str(parsed.get("source", path))
    )


def nodes_for(pods: int, cards_per_pod: int, cards_of_node: int) -> int:
    """Nodes that so many pods fill."""
    return math.ceil(pods / max(1, cards_of_node // cards_per_pod))


def per_hour(nodes: Mapping[str, int], prices: Prices) -> float | None:
    """Dollars an hour of all nodes; None when the price of one is not known."""
    if any(name not in prices.per_hour for name in nodes):
        return None
    return sum(prices.per_hour[name] * count for name, count in nodes.items())


def per_million_tokens(dollars_per_hour: float, tokens_per_second: float) -> float:
    """Dollars for a million tokens, in and out together, at that throughput."""
    return dollars_per_hour / (tokens_per_second * 3600) * 1e6 if tokens_per_second else math.inf


def quotas(nodes: Mapping[str, int], instances: Mapping[str, Any]) -> dict[str, int]:
    """vCPUs by service quota code."""
    needed: dict[str, int] = {}
    for name, count in nodes.items():
        entry = instances.get(name)
        if entry:
            needed[entry["quota"]] = needed.get(entry["quota"], 0) + entry["vcpu"] * count
    return needed
