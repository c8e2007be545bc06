"""What NIXL and vLLM's connector to it write into an engine's log: the transport that was made, who
the engine is to its peers, and transfers that failed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raypd.live.served import container
from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

# vllm/distributed/kv_transfer/kv_connector/v1/nixl/{base,pull}_worker.py and nixl_cu13/_api.py
_BACKEND = re.compile(r"Backend (\S+) was instantiated")
_ENGINE = re.compile(r"Initializing NIXL worker (\S+)")
_FAILURE = re.compile(r"NIXL transfer failure: (.*?) \| Context: (\{.*\})")
_EXPIRED = re.compile(r"Potentially invalid KV blocks for unrecognized request (\S+)")
_WORDS = "|".join(
    (
        "Backend .* was instantiated",
        "Initializing NIXL worker",
        "NIXL transfer failure",
        "Potentially invalid KV blocks",
    )
)
# A worker's file ends with the number of its process. Those of processes that have ended are of
# engines that were replaced.
_READ = f"""
cd /tmp/ray/session_latest/logs || exit
for file in worker-*.out worker-*.err; do
  process=${{file##*-}}
  [ -d "/proc/${{process%.*}}" ] && grep -E '{_WORDS}' "$file" | tail -n 2000
done
exit 0
"""


@dataclass(frozen=True)
class Failure:
    """A transfer that failed: `kind` in vLLM's words, as "handshake_failed"; `engine` is the id and
    `host` the address of the peer, None where the line does not say; `line` is the whole line."""

    kind: str
    engine: str | None
    host: str | None
    line: str


@dataclass(frozen=True)
class NixlLog:
    """Of the engine processes that live in a pod: NIXL's backends, ids of their workers, failures.

    `why` says why nothing is known, "" when the log was read.
    """

    backends: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = field(default=())
    why: str = ""


def read(cluster: Cluster, namespace: str, pod: Json) -> NixlLog:
    """What the engine in the pod has written so far; `why` is set when it cannot be read."""
    name, inside = pod["metadata"]["name"], container(pod)["name"]
    try:
        return parse(cluster.exec(namespace, name, inside, ["sh", "-c", _READ]))
    except UsageError as error:
        return NixlLog(why=str(error))


def parse(text: str) -> NixlLog:
    """The same from lines of the log."""
    lines = text.splitlines()
    failures = [failure for line in lines if (failure := _failure(line))]
    return NixlLog(
        frozenset(found[1] for line in lines if (found := _BACKEND.search(line))),
        frozenset(found[1] for line in lines if (found := _ENGINE.search(line))),
        tuple(failures),
    )


def _failure(line: str) -> Failure | None:
    if found := _FAILURE.search(line):
        try:
            context = ast.literal_eval(found[2])
        except (ValueError, SyntaxError):
            context = {}  # cut off, or with an object that has no literal
        engine = context.get("remote_engine_id") or context.get("dst_engine_id")
        return Failure(found[1], engine, context.get("remote_host"), line)
    if found := _EXPIRED.search(line):
        return Failure("KV was read after its lease had ended", None, None, line)
    return None
