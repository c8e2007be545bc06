"""The counters of a local run: read, and waited for. What they mean is in raypd.evidence."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from raypd.evidence import Counters, Evidence, between
from raypd.local.plan import HOST
from raypd.local.state import State
from raypd.local.web import client


def look(state: State) -> Counters:
    """The counters of all nodes now, by worker group."""
    counters = Counters()
    for node, text in exported(state).items():
        counters.add_engine(state.groups[node], text)
    for node, port in state.nixl_metrics.items():
        counters.add_nixl(state.groups[node], _metrics(port))
    return counters


def exported(state: State) -> dict[str, str]:
    """What the metrics port of each node says, by node name."""
    return {node: _metrics(port) for node, port in state.metrics.items()}


def settled(state: State, seconds: float = 30) -> Counters:
    """The counters once two looks, a little more than a reporting interval apart, are the same."""
    return _until(state, lambda before, now: before == now, seconds, pause=1.5)


def after_request(state: State, before: Counters, tokens: int, seconds: float = 20) -> Evidence:
    """What a request of `tokens` prompt tokens left in the counters, which are a second late.

    Waits until as many tokens are accounted for, and for the KV if any was received; what is there
    after `seconds` is returned as it is, and `Evidence.faults` says what is missing.
    """

    def complete(_: Counters, now: Counters) -> bool:
        found = between(before, now)
        accounted = sum(sum(d.values()) for d in (found.computed, found.cached, found.received))
        engines = 2 if state.disaggregated else 1
        counted = found.kv_bytes > 0 or not found.received or not state.nixl_metrics
        return accounted >= engines * tokens and counted

    return between(before, _until(state, complete, seconds, pause=0.3))


def _until(
    state: State, done: Callable[[Counters, Counters], bool], seconds: float, pause: float
) -> Counters:
    deadline = time.monotonic() + seconds
    before = look(state)
    while time.monotonic() < deadline:
        time.sleep(pause)
        now = look(state)
        if done(before, now):
            return now
        before = now
    return before


def _metrics(port: int) -> str:
    """What a metrics port says; "" while nothing listens there (an engine is starting)."""
    try:
        return client().get(f"http://{HOST}:{port}/metrics").text
    except httpx.TransportError:
        return ""
