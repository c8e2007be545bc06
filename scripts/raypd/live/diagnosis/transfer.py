"""KV transfers that fail while engines run, from their logs (RPD662, RPD663, RPD664).

Words of vLLM 0.26, distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from raypd.live.diagnosis.errors import explain
from raypd.live.diagnosis.trouble import Check, Trouble, of_pod
from raypd.live.snapshot import ENGINES, Json, Snapshot

_RECENT = timedelta(minutes=30)
_FAILURE = re.compile(
    r"ERROR (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) .*NIXL transfer failure: (?P<kind>\w+).*?"
    r"\| Context: (?P<context>.*)"
)
_PEER = re.compile(r"'remote_host': '(?P<host>[^']+)', 'remote_port': (?P<port>\d+)")


def failing(snapshot: Snapshot) -> Iterator[Trouble]:
    for pod in snapshot.component(*ENGINES):
        log = snapshot.engine_logs.get(pod["metadata"]["name"], "")
        recent = [f for f in _FAILURE.finditer(log) if _is_recent(f["time"], snapshot.taken)]
        if recent:
            yield _trouble(pod, recent, log[recent[-1].start() :], snapshot)


def _is_recent(stamp: str, taken: str) -> bool:
    """Whether a time of a log (UTC, without the year) is not long before the snapshot."""
    now = datetime.fromisoformat(taken)
    then = datetime.fromisoformat(f"{now.year}-{stamp.replace(' ', 'T')}+00:00")
    if then > now + timedelta(days=1):
        then = then.replace(year=now.year - 1)
    return now - then < _RECENT


def _trouble(pod: Json, recent: list[re.Match[str]], rest: str, snapshot: Snapshot) -> Trouble:
    last = recent[-1]
    known = explain(rest)
    if known and known.code == "RPD664":
        return of_pod(known.code, pod, known.message, known.remedy)
    peer = _PEER.search(last["context"])
    times = f"{len(recent)} in the last half hour, the last at {last['time']}"
    if "handshake" in last["kind"]:
        return of_pod(
            "RPD662",
            pod,
            f"It does not get through to the KV side channel of {_peer(peer, snapshot)} ({times}), "
            "so prompts that were computed there fail or are computed again.",
            "The way between the engines: a NetworkPolicy that blocks the side-channel ports "
            "(transport.ports), security groups. A peer that has restarted has another address: "
            "delete this pod, if it still asks the old one.",
        )
    return of_pod(
        "RPD663",
        pod,
        f"Reading KV from {_peer(peer, snapshot)} fails ({last['kind']}, {times}).",
        "The fabric: for EFA both pods in one zone and a security group that lets itself in and "
        "out; `raypd verify` shows whether KV moves now. Else a new pod for both engines.",
    )


def _peer(peer: re.Match[str] | None, snapshot: Snapshot) -> str:
    """The other engine: its pod, if its address belongs to one."""
    if peer is None:
        return "the other engine"
    pods = [p for p in snapshot.pods if p["status"].get("podIP") == peer["host"]]
    name = f"pod {pods[0]['metadata']['name']}" if pods else "an address that no pod has any more"
    return f"{name} ({peer['host']}:{peer['port']})"


CHECKS: list[Check] = [failing]
