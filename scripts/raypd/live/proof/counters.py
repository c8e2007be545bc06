"""The counters of a release's engines, read from their pods; and whether two looks at them can be
compared, or an engine was replaced in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from raypd.evidence import Counters, grown, shrunk
from raypd.live.forward import forward
from raypd.live.served import Served, environment, telemetry_port
from raypd.live.snapshot import DASHBOARD_PORT, SERVE_URL, containers

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

METRICS_PORT = 8080
_PAUSE, _SLACK = 1.0, 5.0  # seconds
_READERS = 8
_REPORT_MILLISECONDS = 10_000  # Ray's default for metrics_report_interval_ms


@dataclass(frozen=True)
class Look:
    """The counters at one moment, by pod, and which processes they belong to.

    `lives` has uid and restarts of each engine pod's containers; `replicas` are the ids of Serve's
    replicas, None when the dashboard does not answer. `unread` says of pods whose counters could
    not be read why.
    """

    counters: Counters
    lives: dict[str, tuple[str, int]]
    replicas: frozenset[str] | None
    unread: dict[str, str]


def breaks(before: Look, after: Look) -> list[str]:
    """Why the counters of two looks cannot be compared; [] when they can."""
    found = [
        f"the counters of pod {pod} cannot be read ({why})" for pod, why in after.unread.items()
    ]
    found += [
        f"the counters of pod {pod} could not be read before ({why})"
        for pod, why in before.unread.items()
        if pod not in after.unread
    ]
    for pod in sorted(before.lives.keys() | after.lives.keys()):
        old, new = before.lives.get(pod), after.lives.get(pod)
        if new is None:
            found.append(f"pod {pod} went away meanwhile")
        elif old is None:
            found.append(f"pod {pod} is new")
        elif old != new:
            found.append(f"a container of pod {pod} was started again meanwhile")
    if None not in (before.replicas, after.replicas) and before.replicas != after.replicas:
        found.append("Ray Serve replaced replicas meanwhile")
    if not found and shrunk(grown(before.counters, after.counters)):
        found.append("counters began anew meanwhile")
    return found


class Meter:
    """Reads the counters of all engine pods; each pod has a connection of its own."""

    def __init__(
        self,
        pods: Callable[[], list[Json]],
        engines: dict[str, httpx.Client],
        nixl: dict[str, httpx.Client],
        dashboard: httpx.Client,
        report_seconds: float,
    ) -> None:
        """`pods` lists the release's engine pods anew; the clients are those of the metrics port,
        by pod, of NIXL's exporter where there is one, and of Ray's dashboard. Counters follow what
        they count by up to `report_seconds`."""
        self._pods, self._engines, self._nixl = pods, engines, nixl
        self._dashboard = dashboard
        self.report_seconds = report_seconds

    @property
    def exports_kv(self) -> bool:
        """Some engine exports NIXL's own counters."""
        return bool(self._nixl)

    def look(self) -> Look:
        """Everything. Raises UsageError when the API server refuses to forward or to list pods."""
        counters, unread = self.counters()
        lives = {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(c.get("restartCount", 0) for c in containers(pod)),
            )
            for pod in self._pods()
        }
        return Look(counters, lives, self._replicas(), unread)

    def counters(self) -> tuple[Counters, dict[str, str]]:
        """Only the counters, and why some are missing."""
        counters, unread = Counters(), {}
        jobs = [(pod, http, Counters.add_engine) for pod, http in self._engines.items()]
        jobs += [(pod, http, Counters.add_nixl) for pod, http in self._nixl.items()]
        with ThreadPoolExecutor(_READERS) as readers:
            answers = readers.map(_metrics, [http for _, http, _ in jobs])
            for (pod, _, add), (text, why) in zip(jobs, answers, strict=True):
                if why:
                    unread[pod] = why
                else:
                    add(counters, pod, text)
        return counters, unread

    def wait(self, done: Callable[[Counters], bool]) -> None:
        """Reads until `done`, or until every engine must have reported what it counted before."""
        deadline = time.monotonic() + 2 * self.report_seconds + _SLACK
        while time.monotonic() < deadline:
            counters, unread = self.counters()
            if not unread and done(counters):
                return
            time.sleep(_PAUSE)

    def _replicas(self) -> frozenset[str] | None:
        try:
            answer = self._dashboard.get(SERVE_URL).raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return None
        return frozenset(
            replica["replica_id"]
            for application in answer["applications"].values()
            for deployment in application["deployments"].values()
            for replica in deployment["replicas"]
        )


@contextmanager
def meter(cluster: Cluster, served: Served, pods: Callable[[], list[Json]]) -> Iterator[Meter]:
    """A meter for the engines of what is served; its connections end with the context."""
    with ExitStack() as stack:

        def client(pod: str, port: int) -> httpx.Client:
            return stack.enter_context(forward(cluster, served.namespace, pod, port))

        names = {pod["metadata"]["name"]: pod for pod in served.pods}
        ports = {name: telemetry_port(pod) for name, pod in names.items()}
        intervals = [_report_seconds(pod) for pod in served.pods]
        yield Meter(
            pods,
            {name: client(name, METRICS_PORT) for name in names},
            {name: client(name, port) for name, port in ports.items() if port},
            client(served.head["metadata"]["name"], DASHBOARD_PORT),
            max(intervals),
        )


def _report_seconds(pod: Json) -> float:
    written = environment(pod).get("RAY_metrics_report_interval_ms", str(_REPORT_MILLISECONDS))
    return max(int(written), 1000) / 1000  # Ray takes no shorter one


def _metrics(http: httpx.Client) -> tuple[str, str]:
    """What a metrics port says, and why it says nothing; one of the two is empty."""
    try:
        return http.get("/metrics").raise_for_status().text, ""
    except httpx.HTTPError as error:
        return "", str(error) or type(error).__name__
