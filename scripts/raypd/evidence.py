"""Which engine computed a prompt, and what KV moved: from counters, never from the answer's text.

Two sources. vLLM's own counters, on the metrics port of each Ray node: prompt tokens by source
(computed here, found in a local cache, received from another engine) and KV transfers that were
done and that failed. And NIXL's telemetry of an engine's process, where it is exported: bytes,
requests and time of reads. vLLM has these too, as histograms, and Ray rebuilds them from bucket
midpoints (ray/_private/telemetry/open_telemetry_metric_recorder.py): counts and buckets are right,
sums can be wrong by a factor of four. So nothing but counts and bounds is taken from them.

vLLM counts a prompt's sources when it first schedules it. Tokens that it then fails to receive and
computes after all (kv_load_failure_policy: recompute) stay counted as received: received tokens are
no proof without transfers that were done and none that failed.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

COMPUTED, CACHED, RECEIVED = "local_compute", "local_cache_hit", "external_kv_transfer"
_TOKENS = "ray_vllm_prompt_tokens_by_source_total"
_FAILED = (
    "ray_vllm_nixl_num_failed_transfers_total",
    "ray_vllm_nixl_num_failed_notifications_total",
)
_BYTES, _SECONDS = "ray_vllm_nixl_bytes_transferred", "ray_vllm_nixl_xfer_time_seconds"
_READ_BYTES, _READS = "agent_rx_bytes_total", "agent_rx_requests_num_total"
_READ_MICROSECONDS = "agent_xfer_time_total"


def unseen_prompt(words: str = "Tell me what prefill and decode do. " * 12) -> str:
    """A prompt that no cache has seen: it begins with a random number."""
    return f"{uuid.uuid4().hex}. {words}"


@dataclass
class Counters:
    """Sums since the engines started, by the place that was asked: a worker group, or a pod.

    `tokens` is by place and source (COMPUTED, CACHED, RECEIVED). `transfers` were done, `failed` are
    transfers and notifications that were not; both are counted where KV is read. `byte_buckets` and
    `second_buckets` are transfers up to so many bytes and seconds, by place and bound. `kv_bytes`,
    `kv_reads` and `kv_seconds` are NIXL's own.
    """

    tokens: dict[tuple[str, str], float] = field(default_factory=dict)
    transfers: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    byte_buckets: dict[tuple[str, float], float] = field(default_factory=dict)
    second_buckets: dict[tuple[str, float], float] = field(default_factory=dict)
    kv_bytes: dict[str, float] = field(default_factory=dict)
    kv_reads: dict[str, float] = field(default_factory=dict)
    kv_seconds: dict[str, float] = field(default_factory=dict)

    def add_engine(self, place: str, text: str) -> None:
        """Adds what the metrics port of a Ray node says, in Prometheus' text form."""
        for name, labels, value in _samples(text):
            if name == _TOKENS:
                _add(self.tokens, (place, labels["source"]), value)
            elif name in _FAILED:
                _add(self.failed, place, value)
            elif name == f"{_BYTES}_count":
                _add(self.transfers, place, value)
            elif name == f"{_BYTES}_bucket":
                _add(self.byte_buckets, (place, float(labels["le"])), value)
            elif name == f"{_SECONDS}_bucket":
                _add(self.second_buckets, (place, float(labels["le"])), value)

    def add_nixl(self, place: str, text: str) -> None:
        """Adds what NIXL's Prometheus exporter says in an engine's process."""
        for name, _, value in _samples(text):
            if name == _READ_BYTES:
                _add(self.kv_bytes, place, value)
            elif name == _READS:
                _add(self.kv_reads, place, value)
            elif name == _READ_MICROSECONDS:
                _add(self.kv_seconds, place, value / 1e6)

    def of(self, places: Iterable[str], source: str) -> int:
        """Tokens of a source in all these places."""
        return int(sum(self.tokens.get((place, source), 0) for place in places))

    def counted(self, places: Iterable[str]) -> int:
        """Prompt tokens of any source in all these places."""
        wanted = set(places)
        return int(sum(count for (place, _), count in self.tokens.items() if place in wanted))


def grown(before: Counters, after: Counters) -> Counters:
    """How much each counter has grown. One that is smaller, or is no longer there, belongs to a
    process that was replaced: its difference is negative."""

    def difference(old: Mapping[Any, float], new: Mapping[Any, float]) -> dict[Any, float]:
        return {key: new.get(key, 0.0) - old.get(key, 0.0) for key in {**old, **new}}

    names = [f.name for f in fields(Counters)]
    return Counters(**{name: difference(vars(before)[name], vars(after)[name]) for name in names})


def shrunk(growth: Counters) -> bool:
    """Whether any counter has become smaller, which a counter only does when it begins anew."""
    return any(change < 0 for counters in vars(growth).values() for change in counters.values())


def bounds(buckets: Mapping[tuple[str, float], float]) -> tuple[float, float]:
    """Least and most that observations sum up to, of which the cumulative histogram is known by
    place and upper bound; (0, 0) without any, and infinity when one is above every bound."""
    least = most = 0.0
    for place in {place for place, _ in buckets}:
        below, reached = 0.0, 0.0
        for bound in sorted(le for p, le in buckets if p == place):
            count = buckets[place, bound] - reached
            if count > 0:
                least += count * below
                most += count * bound
            below, reached = bound, buckets[place, bound]
    return least, most


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
            faults.append(f"{self.failed} KV transfers or notifications failed")
        return faults


def between(before: Counters, after: Counters) -> Evidence:
    """The difference of two looks at the counters of worker groups."""
    growth = grown(before, after)

    def tokens(source: str) -> dict[str, int]:
        found = {group: int(count) for (group, s), count in growth.tokens.items() if s == source}
        return {group: count for group, count in found.items() if count}

    return Evidence(
        computed=tokens(COMPUTED),
        received=tokens(RECEIVED),
        cached=tokens(CACHED),
        kv_bytes=int(sum(growth.kv_bytes.values())),
        kv_reads=int(sum(growth.kv_reads.values())),
        kv_seconds=math.fsum(growth.kv_seconds.values()),
        failed=int(sum(growth.failed.values())),
    )


def _samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _add(sums: dict[Any, float], key: object, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value
