"""What the numbers of `raypd verify` prove, check by check. Pure: looks and logs in, verdicts out.

A verdict never rests on the answer's text. It is PASS only where the numbers leave no other way, FAIL
only where they leave no way out, and CANNOT TELL in between: with other traffic at the same time,
with counters that are late, after an engine was replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any

from raypd.evidence import CACHED, COMPUTED, RECEIVED, Counters, bounds
from raypd.live.proof.fabric import Traffic
from raypd.live.proof.nixl_log import Failure, NixlLog

Pair = tuple[str, str]

# Of a prompt that no cache has seen: every prompt of a model begins with the same few tokens of its
# chat template, and these may come from a cache.
_UNSEEN = 3 / 4
_TELLING_BYTES = 16 << 20  # of KV, below which the start of a read takes longer than the bytes do
_NAMED = 8  # things that a sentence lists before it says how many more there are


class Verdict(StrEnum):
    """How a check ended."""

    PASS = "PASS"
    FAIL = "FAIL"
    CANNOT_TELL = "CANNOT TELL"
    NOT_APPLICABLE = "NOT APPLICABLE"


@dataclass(frozen=True)
class Check:
    """One check: its name, its verdict, a sentence or two for a person, and the numbers."""

    name: str
    verdict: Verdict
    words: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """Requests that were sent one after the other between two looks at the counters.

    `prompts` has the tokens of each prompt that was answered, `seconds` how long that took in all,
    `error` the server's words when one was not. `growth` is of the counters, by pod; `breaks` says
    why the looks cannot be compared.
    """

    prompts: tuple[int, ...]
    seconds: float
    growth: Counters
    error: str = ""
    breaks: tuple[str, ...] = ()

    @property
    def asked(self) -> int:
        """Prompt tokens in all."""
        return sum(self.prompts)


def answered(windows: Sequence[Window]) -> Check:
    """The endpoint answers."""
    prompts = [tokens for window in windows for tokens in window.prompts]
    seconds = sum(window.seconds for window in windows)
    numbers = {
        "requests": len(prompts),
        "prompt_tokens": sum(prompts),
        "seconds": round(seconds, 2),
    }
    if errors := [window.error for window in windows if window.error]:
        return Check("answer", Verdict.FAIL, errors[0], numbers)
    words = f"{_count(len(prompts), 'request')} of {_count(sum(prompts), 'prompt token')} answered in {seconds:.1f} s"
    return Check("answer", Verdict.PASS, words, numbers)


def counted(
    window_prompts: Sequence[int], growth: Counters, engines: Mapping[str, Iterable[str]]
) -> bool:
    """The counters show these prompts and nothing else, so there is nothing more to wait for."""
    asked, requests = sum(window_prompts), len(window_prompts)
    if "engine" in engines:
        return growth.counted(engines["engine"]) == asked
    return (
        growth.counted(engines["decode"]) == asked
        # A hybrid model's prefill leaves the last token to decode.
        and growth.counted(engines["prefill"]) in (asked, asked - requests)
        and _sum(growth.transfers, engines["decode"]) >= requests
    )


def apart(window: Window, prefill: Iterable[str], decode: Iterable[str]) -> Check:
    """Prefill computed the prompts and decode received them. The one that all else hangs on.

    What decode computed of these prompts is at least their tokens less all that decode received or
    had cached, and at most all that decode computed, whatever other requests did meanwhile. One
    token of a prompt is always decode's own: the last, whose output is the answer's first.
    """
    prefill, decode = set(prefill), set(decode)
    growth, asked, requests = window.growth, window.asked, len(window.prompts)
    computed, hits = growth.of(prefill, COMPUTED), growth.of(prefill, CACHED)
    own, received, cached = (growth.of(decode, source) for source in (COMPUTED, RECEIVED, CACHED))
    transfers, failed = _sum(growth.transfers, decode), _sum(growth.failed, prefill | decode)
    numbers = {
        "prompt_tokens": asked,
        "prefill": {COMPUTED: computed, CACHED: hits},
        "decode": {COMPUTED: own, RECEIVED: received, CACHED: cached},
        "transfers": transfers,
        "failed": failed,
    }

    def check(verdict: Verdict, words: str) -> Check:
        return Check("disaggregation", verdict, words, numbers)

    if not requests:
        return check(Verdict.CANNOT_TELL, "no request was answered")
    if window.breaks:
        return check(Verdict.CANNOT_TELL, _and(window.breaks))
    seen = (
        f"{_count(asked, 'prompt token')}: prefill computed {computed}, decode received {received}"
        f" and computed {own}"
    )
    if received + cached + own >= asked and asked - received - cached > requests:
        return check(
            Verdict.FAIL,
            f"{seen}. At least {asked - received - cached} of ours were computed by decode: it is not"
            " served with prefill and decode apart.",
        )
    doubts = []
    if own > requests:
        doubts.append("decode computed tokens, and they may be of other requests")
    if computed < _UNSEEN * asked:
        doubts.append(
            f"prefill is not seen to compute the prompt ({hits} tokens were in its cache)"
        )
    if received < _UNSEEN * asked:
        doubts.append(
            f"decode is not seen to receive the prompt ({cached} tokens were in its cache)"
        )
    if transfers < requests:
        doubts.append(f"only {transfers} of {_count(requests, 'KV transfer')} are counted as done")
    if failed:
        # These tokens count as received from the moment that their transfer is planned.
        doubts.append(f"{_count(failed, 'transfer')} failed, so that decode may have computed")
    if doubts:
        return check(Verdict.CANNOT_TELL, f"{seen}; {_and(doubts)}")
    others = received + cached + own - asked
    more = f"; other requests of {_count(others, 'token')} among them" if others > 0 else ""
    return check(Verdict.PASS, f"{seen}{more}")


def together(window: Window, engines: Iterable[str]) -> Check:
    """One engine computed the prompts, and no KV came from another."""
    engines = set(engines)
    growth, asked = window.growth, window.asked
    computed, received = growth.of(engines, COMPUTED), growth.of(engines, RECEIVED)
    transfers = _sum(growth.transfers, engines)
    numbers = {
        "prompt_tokens": asked,
        COMPUTED: computed,
        RECEIVED: received,
        "transfers": transfers,
    }
    words = f"the engine computed {computed} of {_count(asked, 'prompt token')}"
    if not window.prompts:
        verdict, words = Verdict.CANNOT_TELL, "no request was answered"
    elif window.breaks:
        verdict, words = Verdict.CANNOT_TELL, _and(window.breaks)
    elif received or transfers:
        verdict = Verdict.FAIL
        words = f"{words}, and {received} came by KV transfer, which this mode does not have"
    elif computed < _UNSEEN * asked:
        verdict = Verdict.CANNOT_TELL
    else:
        verdict, words = Verdict.PASS, f"{words}, and no KV was transferred"
    return Check("aggregation", verdict, words, numbers)


def transfers(windows: Sequence[Window], decode: Iterable[str], fresh: Sequence[Failure]) -> Check:
    """No transfer and no notification failed; `fresh` are failures that the logs gained meanwhile."""
    decode = set(decode)
    sound = [window for window in windows if not window.breaks]
    done = sum(_sum(window.growth.transfers, decode) for window in sound)
    failed = sum(int(sum(window.growth.failed.values())) for window in sound)
    numbers = {"done": done, "failed": failed, "failures_in_logs": len(fresh)}
    if failed or fresh:
        said = f" The log says: {_and(dict.fromkeys(f.kind for f in fresh))}." if fresh else ""
        verdict = Verdict.FAIL
        words = (
            f"KV transfers or notifications failed: {failed} are counted; {done} were done.{said}"
        )
    elif not sound:
        reasons = dict.fromkeys(reason for window in windows for reason in window.breaks)
        verdict, words = Verdict.CANNOT_TELL, _and(reasons)
    elif not done:
        verdict, words = Verdict.CANNOT_TELL, "no transfer is counted, neither done nor failed"
    else:
        verdict, words = Verdict.PASS, f"{_count(done, 'transfer')} done, none failed"
    return Check("transfers", verdict, words, numbers)


def pairs(proven: Mapping[Pair, int], prefill: Sequence[str], decode: Sequence[str]) -> Check:
    """Which engines of the two roles worked together. `proven` counts requests by pair."""
    everyone = list(product(prefill, decode))
    missing = [pair for pair in everyone if pair not in proven]
    numbers = {
        "reached": [{"prefill": p, "decode": d, "requests": n} for (p, d), n in proven.items()],
        "not_reached": [{"prefill": p, "decode": d} for p, d in missing],
    }
    reached = f"{len(proven)} of {_count(len(everyone), 'pair')}: " if len(everyone) > 1 else ""
    words = (
        f"{reached}{_listed(f'{p} -> {d}' for p, d in proven)}" if proven else "no pair is known"
    )
    if missing:
        words += f". Not reached: {_listed(f'{p} -> {d}' for p, d in missing)}"
    verdict = Verdict.CANNOT_TELL if missing else Verdict.PASS
    return Check("pairs", verdict, words, numbers)


def pairs_in(window: Window, prefill: Sequence[str], decode: Sequence[str]) -> dict[Pair, int]:
    """Which pair served each prompt of a window, as far as the tokens can only mean one thing."""
    prompts = window.prompts
    at_decode = assigned(prompts, {p: window.growth.counted([p]) for p in decode})
    seen = {pod: window.growth.counted([pod]) for pod in prefill}
    # A hybrid model's prefill leaves the last token of each prompt to decode.
    at_prefill = assigned(prompts, seen) or assigned([n - 1 for n in prompts], seen)
    found: dict[Pair, int] = {}
    for pair in zip(at_prefill, at_decode, strict=False):
        found[pair] = found.get(pair, 0) + 1
    return found


def assigned(prompts: Sequence[int], totals: Mapping[str, int]) -> list[str]:
    """The pod of each prompt, when there is exactly one way to share them out so that each pod gets
    its total; [] when there is none or more than one."""
    found: list[list[str]] = []

    def share(index: int, left: dict[str, int], chosen: list[str]) -> None:
        if len(found) > 1:
            return
        if index == len(prompts):
            if not any(left.values()):
                found.append(chosen)
            return
        for pod, total in left.items():
            if total >= prompts[index] > 0:
                share(index + 1, {**left, pod: total - prompts[index]}, [*chosen, pod])

    share(0, {pod: total for pod, total in totals.items() if total}, [])
    return found[0] if len(found) == 1 else []


def backends(
    asked: Mapping[str, Sequence[str]], logs: Mapping[str, Mapping[str, NixlLog]]
) -> Check:
    """Each engine made the transport that the serve config asks for; `logs` is by role and pod."""
    numbers = {pod: sorted(log.backends) for found in logs.values() for pod, log in found.items()}
    other, unknown = [], []
    for role, found in logs.items():
        wanted = set(asked[role])
        for pod, log in found.items():
            if not log.backends:
                unknown.append(f"{pod} ({log.why or 'its log does not say'})")
            elif log.backends != wanted:
                made = ", ".join(sorted(log.backends))
                other.append(f"{pod} made {made} and should have made {', '.join(sorted(wanted))}")
    names = ", ".join(sorted({name for wanted in asked.values() for name in wanted}))
    if other:
        verdict, words = Verdict.FAIL, _listed(other)
    elif unknown:
        verdict, words = (
            Verdict.CANNOT_TELL,
            f"no engine's log shows what was made: {_listed(unknown)}",
        )
    else:
        verdict, words = Verdict.PASS, f"{names} on both sides, as the serve config asks"
    return Check("backend", verdict, words, numbers)


def rate(windows: Sequence[Window], decode: Iterable[str], floor: float | None = None) -> Check:
    """Gigabytes per second, from NIXL's own figures. Ray's histograms only give bounds.

    `floor` is what the path gives at least when it works, None where nobody measured it. A few bytes
    say nothing about it: the time of a short read is that of its start."""
    decode = set(decode)
    size = sum(_sum(window.growth.kv_bytes, decode) for window in windows)
    reads = sum(_sum(window.growth.kv_reads, decode) for window in windows)
    seconds = sum(window.growth.kv_seconds.get(pod, 0.0) for window in windows for pod in decode)
    if size > 0 and seconds > 0:
        speed = size / seconds / 1e9
        numbers = {"bytes": size, "reads": reads, "seconds": seconds, "gigabytes_per_second": speed}
        words = f"{speed:.3g} GB/s: {size:,} bytes in {_count(reads, 'read')} of {seconds:.4f} s"
        if floor is None or size < _TELLING_BYTES:
            return Check("rate", Verdict.PASS, words, numbers)
        numbers["floor_gigabytes_per_second"] = floor
        if speed >= floor:
            return Check(
                "rate", Verdict.PASS, f"{words}; this path gives {floor:g} and more", numbers
            )
        words += (
            f". GPUs of one host give {floor:g} GB/s and more when UCX reads by CUDA IPC, so it does"
            " not: both pods need UCX_CUDA_IPC_ENABLE_GET_ZCOPY: on, and to see each other's GPU"
        )
        return Check("rate", Verdict.FAIL, words, numbers)
    (low, high), (fast, slow) = (
        kv_bytes(windows, decode),
        _bounds(windows, decode, "second_buckets"),
    )
    least = low / slow / 1e9 if slow else 0.0
    most = high / fast / 1e9 if fast else float("inf")
    numbers = {"bytes": [low, _finite(high)], "seconds": [fast, _finite(slow)]}
    numbers["gigabytes_per_second"] = [least, _finite(most)]
    if not high:
        return Check("rate", Verdict.CANNOT_TELL, "no transfer is counted", numbers)
    span = f"at least {least:.2g}" + (f" and at most {most:.2g}" if _finite(most) else "")
    words = (
        f"{span} GB/s by the buckets of vLLM's histograms, whose sums Ray makes up. For an exact"
        " figure let NIXL export its own: decode.env with NIXL_TELEMETRY_EXPORTER: prometheus and"
        " NIXL_TELEMETRY_PROMETHEUS_LOCAL: y."
    )
    return Check("rate", Verdict.CANNOT_TELL, words, numbers)


def kv_bytes(windows: Sequence[Window], decode: Iterable[str]) -> tuple[float, float]:
    """Least and most bytes of KV that decode read; the same twice where NIXL says how many."""
    decode = set(decode)
    size = float(sum(_sum(window.growth.kv_bytes, decode) for window in windows))
    return (size, size) if size > 0 else _bounds(windows, decode, "byte_buckets")


def efa(
    asked: bool,
    before: Mapping[str, Mapping[str, Traffic]],
    after: Mapping[str, Mapping[str, Traffic]],
    least: float,
) -> Check:
    """The KV went over EFA. Traffic is by role and pod, `least` the bytes of KV that moved at least.

    `asked` tells whether the pods were given EFA interfaces. On a node whose adapters are idle but
    for the engines, the counters of hardware match the KV to the byte.
    """
    if not asked:
        return Check("efa", Verdict.NOT_APPLICABLE, "the engines were not given EFA interfaces")
    now = {pod: traffic for found in after.values() for pod, traffic in found.items()}
    then = {pod: traffic for found in before.values() for pod, traffic in found.items()}
    if unread := {f"{pod} ({t.why})": None for pod, t in (*then.items(), *now.items()) if t.why}:
        return Check("efa", Verdict.CANNOT_TELL, f"counters cannot be read: {_listed(unread)}")
    if without := [pod for pod, traffic in now.items() if not traffic.adapters]:
        words = f"no RDMA device is in {_listed(without)}, which were given EFA interfaces"
        return Check("efa", Verdict.FAIL, words)
    received = sum(traffic.efa_received(then[pod]) for pod, traffic in after["decode"].items())
    sent = sum(traffic.efa_sent(then[pod]) for pod, traffic in after["prefill"].items())
    tcp = sum(now[pod].tcp_received - then[pod].tcp_received for pod in after["decode"])
    numbers = {"efa_received": received, "efa_sent": sent, "tcp_received": tcp, "kv_bytes": least}
    seen = (
        f"decode's adapters received {received:,} bytes, prefill's sent {sent:,}; KV was at least"
        f" {least:,.0f}. Over TCP decode received {tcp:,}."
    )
    if not least or min(received, sent) < 0:
        return Check("efa", Verdict.CANNOT_TELL, f"how much KV moved is not known; {seen}", numbers)
    if received < least or sent < least:
        return Check("efa", Verdict.FAIL, f"the KV did not go over EFA: {seen}", numbers)
    if tcp >= least:
        words = f"as much went over TCP meanwhile, so either can have carried the KV: {seen}"
        return Check("efa", Verdict.CANNOT_TELL, words, numbers)
    return Check("efa", Verdict.PASS, seen, numbers)


def peers(
    fresh: Sequence[Failure],
    old: Sequence[Failure],
    engines: Iterable[str],
    hosts: Iterable[str],
    unread: Sequence[str],
) -> Check:
    """No engine still turns to a peer that is gone.

    `fresh` are failures since the first look, `old` those before it. `engines` and `hosts` are the
    ids and addresses of engines that live now; `unread` says of which pods the log is not known.
    """
    engines, hosts = set(engines), set(hosts)

    def gone(failure: Failure) -> str | None:
        if failure.host is not None and failure.host not in hosts:
            return f"{failure.engine or 'an engine'} on {failure.host}"
        if failure.engine is not None and engines and failure.engine not in engines:
            return failure.engine
        return None

    stale = list(dict.fromkeys(peer for failure in fresh if (peer := gone(failure))))
    before = sum(gone(failure) is not None for failure in old)
    numbers = {"stale_peers": stale, "failures_with_stale_peers_before": before}
    if stale:
        words = (
            f"requests still go to engines that are no longer there: {_listed(stale)}. Restarting the"
            " decode engines makes them forget."
        )
        return Check("peers", Verdict.FAIL, words, numbers)
    if unread:
        return Check(
            "peers", Verdict.CANNOT_TELL, f"logs cannot be read: {_listed(unread)}", numbers
        )
    words = "no failure names an engine that is gone"
    if before:
        words += f"; {before} older ones do, and it did not happen again"
    return Check("peers", Verdict.PASS, words, numbers)


def _bounds(windows: Sequence[Window], decode: set[str], name: str) -> tuple[float, float]:
    each = [
        bounds({key: n for key, n in getattr(w.growth, name).items() if key[0] in decode})
        for w in windows
    ]
    return sum(low for low, _ in each), sum(high for _, high in each)


def _sum(counters: Mapping[str, float], pods: Iterable[str]) -> int:
    return int(sum(counters.get(pod, 0) for pod in pods))


def _finite(number: float) -> float | None:
    """JSON has no infinity."""
    return None if number == float("inf") else number


def _count(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"


def _and(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _listed(parts: Iterable[str]) -> str:
    everything = list(parts)
    more = len(everything) - _NAMED
    return ", ".join(everything[:_NAMED]) + (f" and {more} more" if more > 0 else "")
