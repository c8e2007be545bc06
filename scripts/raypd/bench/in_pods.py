"""KV transfer between the pods of a release, beside its engines: in their containers, with their variables and
their Python."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from websocket import WebSocketException

from raypd.bench import ends
from raypd.bench.kv import FABRICS, Fabric
from raypd.live.served import container
from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster
    from raypd.live.served import Served

Json = dict[str, Any]

# Reads the program that follows on standard input, whose rest is then the program's.
_BOOT = "import sys; exec(compile(sys.stdin.buffer.read({}), 'kv_worker.py', 'exec'))"


class InPod(ends.End):
    """A process in the pod's Ray container."""

    def __init__(self, cluster: Cluster, pod: Json, env: Mapping[str, str]) -> None:
        program = ends.WORKER.read_bytes()
        variables = [f"{name}={value}" for name, value in {**ends.TELLING, **env}.items()]
        command = ["env", *variables, "python3", "-c", _BOOT.format(len(program))]
        metadata = pod["metadata"]
        self._running = cluster.start(
            metadata["namespace"], metadata["name"], container(pod)["name"], command
        )
        self._running.write_stdin(program.decode())
        self._log = ""

    def log(self) -> str:
        while part := self._running.read_stderr(timeout=0):
            self._log += part
        return self._log

    def kill(self) -> None:
        """Closes the connection: the process reads the end of its input, or its alarm rings."""
        with suppress(OSError, WebSocketException):
            self._running.close()

    def _exchange(self, line: str, seconds: float) -> str | None:
        deadline = time.monotonic() + seconds
        with suppress(OSError, WebSocketException):  # it has ended; no line will come
            self._running.write_stdin(line)
        return self._running.readline_stdout(timeout=seconds) or (
            None if time.monotonic() >= deadline else ""
        )


def pair(served: Served) -> tuple[Json, Json]:
    """A pod that holds KV and one that reads it. Raises UsageError where no KV is moved."""
    if not served.disaggregated:
        raise UsageError(
            "KV is moved between prefill and decode; the release has engines that do both."
        )
    return served.engines["prefill"][0], served.engines["decode"][0]


def starts(cluster: Cluster, served: Served) -> tuple[ends.Start, ends.Start]:
    """How the target is started, and how the initiator."""
    target, initiator = pair(served)
    return partial(InPod, cluster, target), partial(InPod, cluster, initiator)


def fabrics(served: Served) -> dict[str, Fabric]:
    """Those of this machine, as they are between pods: `default` is what the engines were given, TCP goes over
    the pods' network, and a copy in one pod's memory is no yardstick."""
    (backend,) = {name for names in served.backends.values() for name in names}
    changed = {
        "default": {"backend": backend},
        "tcp": {"env": {"UCX_TLS": "tcp,cuda_copy"}},
    }
    return {
        name: replace(fabric, yardstick="socket", **changed.get(name, {}))
        for name, fabric in FABRICS.items()
    }


def hardware(served: Served) -> dict[str, str | int | float]:
    """Who reads from whom, and where they run."""
    named = zip(("target", "initiator"), pair(served), strict=True)
    return {role: f"{pod['metadata']['name']} on {pod['spec']['nodeName']}" for role, pod in named}
