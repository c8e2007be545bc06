"""An engine's start in a cluster: what Kubernetes says of its pod, and what is in the pod's logs and
caches."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any

from raypd.bench.timeline import WORDS
from raypd.local.plan import CACHES

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

_FILES = "==> files <=="
# "Successfully pulled image "x" in 1m2.5s (1m3s including waiting). Image size: ..."
_PULLED = re.compile(r"pulled image .* in ((?:[\d.]+(?:h|m|s|ms))+) ")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def scheduled(pod: Json) -> float | None:
    """Seconds that the pod waited for a node."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return _seconds(pod["metadata"]["creationTimestamp"], condition["lastTransitionTime"])
    return None


def container_began(pod: Json) -> datetime | None:
    """When the Ray container began, in UTC."""
    name = pod["spec"]["containers"][0]["name"]
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        running = (status.get("state") or {}).get("running")
        if status["name"] == name and running:
            return datetime.fromisoformat(running["startedAt"])
    return None


def image(events: list[Json]) -> float | None:
    """Seconds of pulling images, by the kubelet's events of the pod; 0 when all were there, None when
    the events are gone, which they are after an hour."""
    pulled = [event["message"] for event in events if event["reason"] == "Pulled"]
    if not pulled:
        return None
    found = [found for message in pulled if (found := _PULLED.search(message))]
    return round(sum(_duration(f[1]) for f in found), 2)


def read(cluster: Cluster, pod: Json) -> tuple[list[str], datetime, int, int]:
    """The lines of the engine's logs that tell of its start; when the container began, on the clock
    that they are written by; and files and bytes that it wrote into its caches.

    Raises UsageError when the pod does not let anybody look.
    """
    began = container_began(pod)
    assert began is not None, "a running pod"
    container = pod["spec"]["containers"][0]["name"]
    metadata = pod["metadata"]
    printed = cluster.exec(
        metadata["namespace"], metadata["name"], container, ["sh", "-c", _script(began)]
    )
    log, _, files = printed.partition(f"{_FILES}\n")
    zone, *lines = log.splitlines()
    sizes = [int(size) for size in files.split()]
    here = began.astimezone(datetime.strptime(zone, "%z").tzinfo).replace(tzinfo=None)
    return lines, here, len(sizes), sum(sizes)


def _script(began: datetime) -> str:
    words = " ".join(f"-e {shlex.quote(word)}" for word in WORDS)
    # Variables that are not set leave nothing, and one folder may lie in another.
    folders = " ".join(f'${{{name}:+"${name}"}}' for name in CACHES)
    return (
        "date +%z; cd /tmp/ray/session_latest/logs && "
        f"grep -hF {words} worker-*.out worker-*.err; echo '{_FILES}'; set -- {folders}; "
        f'[ $# = 0 ] || find "$@" -type f -newermt @{int(began.timestamp())} -printf "%i %s\\n" '
        "2>/dev/null | sort -u | cut -d' ' -f2"
    )


def _duration(text: str) -> float:
    parts = re.findall(r"([\d.]+)(ms|h|m|s)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
