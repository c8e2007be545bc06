"""Where the seconds of an engine's start went, read from what its processes wrote.

Patterns are of vLLM 0.26 and Ray Serve LLM 2.58. Where vLLM says itself how long something took, that is
taken; elsewhere the time between two lines, of which vLLM's have whole seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

# "(EngineCore pid=7) INFO 12-02 16:20:34 [core.py:116] ..." of vLLM, "INFO 2026-12-02 16:18:23,243 ..."
# of Ray and "2026-12-02 16:21:25 NIXL INFO ..." of NIXL: all in the machine's local time.
_WHEN = re.compile(r"(?:(20\d\d)-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:,(\d{3}))?")

_REPLICA = re.compile(
    r"Running tasks to download model files|Nothing to download from object storage"
)
_ENGINE = re.compile(r"Initializing a V1 LLM engine")
_LOAD = re.compile(r"Starting to load model")
_WEIGHTS = re.compile(r"Model loading took .*?and ([\d.]+) seconds")
_COMPILE = re.compile(r"torch\.compile took ([\d.]+) s in total")
_CAPTURE = re.compile(r"Graph capturing finished in ([\d.]+) secs")
_NIXL = re.compile(r"Initializing NIXL wrapper")
_REGISTERED = re.compile(r"Registering KV_Caches")
_INIT = re.compile(
    r"init engine \([^)]*\) took ([\d.]+) s(?:econds)?(?: \(compilation: ([\d.]+) s)?"
)
_READY = re.compile(r"Started vLLM engine")
_COMPILED = re.compile(r"Compiling a graph for compile range")
_REUSED = re.compile(r"Directly load (?:the compiled graph|AOT compilation)")
_DOWNLOADED = re.compile(r"Fetching (\d+) files|Downloading .*?safetensors")

# In every line that a pattern finds; for a grep where the log is, so that not all of it travels.
WORDS = (
    "Running tasks to download",
    "Nothing to download",
    "Initializing a V1 LLM engine",
    "Starting to load model",
    "Model loading took",
    "torch.compile took",
    "Graph capturing finished",
    "Initializing NIXL wrapper",
    "Registering KV_Caches",
    "init engine (",
    "Started vLLM engine",
    "Compiling a graph",
    "Directly load",
    "Fetching",
    "Downloading",
)


@dataclass(frozen=True)
class Start:
    """One engine's start, seconds; None for what its log does not tell (a part that it does not have,
    or one that it has not reached)."""

    to_replica: float | None  # from the beginning to the replica's first step: node, actor, imports
    to_engine: float | None  # the model's files and configuration, until the engine's process
    to_load: float | None  # the engine's processes, until weights are loaded
    weights: float | None
    compile: float | None  # torch.compile, which `init` holds too
    capture: float | None  # CUDA graphs, which `init` holds too
    nixl: float | None  # agent and back end, until KV is registered; `init` holds it too
    init: float | None  # vLLM's "init engine": profile, KV cache, warm-up
    to_ready: float | None  # from the beginning to an engine that takes requests
    graphs_compiled: int
    graphs_reused: int
    downloads: int


def read(lines: Iterable[str], begin: datetime) -> Start:
    """From all lines of one engine's processes, in any order of processes; `begin` is local time."""
    text = list(lines)
    at = {pattern: _first(text, pattern, begin) for pattern in _TIMED}
    init = _found(text, _INIT)
    return Start(
        to_replica=_between(begin, at[_REPLICA]),
        to_engine=_between(at[_REPLICA], at[_ENGINE]),
        to_load=_between(at[_ENGINE], at[_LOAD]),
        weights=_number(_found(text, _WEIGHTS)),
        compile=_number(_found(text, _COMPILE)) or (_number(init, 2) if init else None),
        capture=_number(_found(text, _CAPTURE)),
        nixl=_between(at[_NIXL], at[_REGISTERED]),
        init=_number(init),
        to_ready=_between(begin, at[_READY]),
        graphs_compiled=sum(bool(_COMPILED.search(line)) for line in text),
        graphs_reused=sum(bool(_REUSED.search(line)) for line in text),
        downloads=sum(bool(_DOWNLOADED.search(line)) for line in text),
    )


_TIMED = (_REPLICA, _ENGINE, _LOAD, _NIXL, _REGISTERED, _READY)


def _first(lines: Iterable[str], pattern: re.Pattern[str], begin: datetime) -> datetime | None:
    times = (_time(line, begin) for line in lines if pattern.search(line))
    return min((time for time in times if time is not None), default=None)


def _time(line: str, begin: datetime) -> datetime | None:
    found = _WHEN.search(line)
    if found is None:
        return None
    year, *rest, milliseconds = found.groups()
    time = datetime(int(year or begin.year), *map(int, rest))  # type: ignore[arg-type]
    time += timedelta(milliseconds=int(milliseconds or 0))
    # vLLM leaves the year out: a start over New Year's Eve ends in the next one.
    return time if year or time >= begin - timedelta(days=1) else time.replace(year=time.year + 1)


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    """Not below 0, since one of two lines may have its second cut off."""
    if begin is None or end is None:
        return None
    return max(0.0, round((end - begin).total_seconds(), 2))


def _found(lines: Iterable[str], pattern: re.Pattern[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := pattern.search(line))), None)


def _number(found: re.Match[str] | None, group: int = 1) -> float | None:
    return float(found[group]) if found and found[group] else None
