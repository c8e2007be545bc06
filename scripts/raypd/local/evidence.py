"""Which engine computed a prompt, and what KV moved: from counters, never from the answer's text.

Two sources. vLLM's own counters, on the metrics port of each Ray node: prompt tokens by source
(computed here, found in a local cache, received from another engine), labelled with the replica.
And NIXL's telemetry of each engine's process: bytes, requests and time of reads. NIXL's is used for
bytes and seconds because Ray rebuilds vLLM's histograms of them from bucket midpoints, which can be
wrong by half (ray/_private/telemetry/open_telemetry_metric_recorder.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from raypd.local.plan import HOST
from raypd.local.state import State
from raypd.local.web import client

COMPUTED, CACHED, RECEIVED = "local_compute", "local_cache_hit", "external_kv_transfer"
_TOKENS = "ray_vllm_prompt_tokens_by_source_total"
_FAILED = "ray_vllm_nixl_num_failed_transfers_total"
_READ_BYTES, _READS = "agent_rx_bytes_total", "agent_rx_requests_num_total"
_READ_MICROSECONDS = "agent_xfer_time_total"


@dataclass
class Counters:
    """Sums since the engines started. `tokens` is by worker group and source; `kv_bytes`,
    `kv_reads`, `kv_seconds` and `failed` are by worker group of the engine that reads."""

    tokens: dict[tuple[str, str], float] = field(default_factory=dict)
    kv_bytes: dict[str, float] = field(default_factory=dict)
    kv_reads: dict[str, float] = field(default_factory=dict)
    kv_seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What happened between two looks at the counters; tokens by group, KV in bytes and seconds."""

    computed: dict[str, int]
    received: dict[str, int]
    cached: dict[str, int]
    kv_bytes: int
    kv_reads: int
    kv_seconds: float
    failed: int

    @property
    def gigabytes_per_second(self) -> float:
        """KV rate over the time that NIXL spent on the reads; 0 when nothing moved."""
        return self.kv_bytes / self.kv_seconds / 1e9 if self.kv_seconds else 0.0

    def faults(self, disaggregated: bool, kv_measured: bool = True) -> list[str]:
        """Why this is no proof of the topology; [] when it is one.

        Without `kv_measured` nobody counted bytes, and tokens that decode received are the proof.
        """
        if not disaggregated:
            return [] if self.computed.get("engine") else ["no engine computed the prompt"]
        faults = []
        if not self.computed.get("prefill"):
            faults.append("prefill computed no prompt token")
        if not self.received.get("decode"):
            faults.append("decode received no prompt token from another engine")
        # One token is always decode's own: the last of the prompt, whose output is the first answer.
        if self.computed.get("decode", 0) > 1:
            faults.append(f"decode computed {self.computed['decode']} prompt tokens itself")
        if kv_measured and not self.kv_bytes:
            faults.append("no KV byte was read")
        if self.failed:
            faults.append(f"{self.failed} KV transfers failed")
        return faults


def look(state: State) -> Counters:
    """The counters of all nodes now."""
    counters = Counters()
    for node, port in state.metrics.items():
        group = state.groups[node]
        for name, labels, value in _samples(port):
            if name == _TOKENS:
                _add(counters.tokens, (group, labels["source"]), value)
            elif name == _FAILED:
                _add(counters.failed, group, value)
    for node, port in state.nixl_metrics.items():
        group = state.groups[node]
        for name, _, value in _samples(port):
            if name == _READ_BYTES:
                _add(counters.kv_bytes, group, value)
            elif name == _READS:
                _add(counters.kv_reads, group, value)
            elif name == _READ_MICROSECONDS:
                _add(counters.kv_seconds, group, value / 1e6)
    return counters


def between(before: Counters, after: Counters) -> Evidence:
    """The difference of two looks."""

    def tokens(source: str) -> dict[str, int]:
        grown = {
            group: int(value - before.tokens.get((group, s), 0))
            for (group, s), value in after.tokens.items()
            if s == source
        }
        return {group: count for group, count in grown.items() if count}

    def grown(name: str) -> float:
        return sum(getattr(after, name).values()) - sum(getattr(before, name).values())

    return Evidence(
        computed=tokens(COMPUTED),
        received=tokens(RECEIVED),
        cached=tokens(CACHED),
        kv_bytes=int(grown("kv_bytes")),
        kv_reads=int(grown("kv_reads")),
        kv_seconds=grown("kv_seconds"),
        failed=int(grown("failed")),
    )


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


def _samples(port: int) -> Iterator[tuple[str, dict[str, str], float]]:
    """All samples of a metrics port; none while nothing listens there (an engine is starting)."""
    try:
        text = client().get(f"http://{HOST}:{port}/metrics").text
    except httpx.TransportError:
        return
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _add(sums: dict, key: object, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value
