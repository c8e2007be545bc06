"""What an engine writes about itself: vLLM's log lines, as they lie in the files of Ray's workers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

_EXCEPTION = re.compile(r"^(?=[A-Za-z_])[\w.]*(?:Error|Exception|Invalid\w*|NotFound\w*): .+")
# vLLM's own log line: "(EngineCore pid=123) ERROR 12-01 22:00:02 [core.py:99] ...", where processes
# that have no name yet leave the first part out. Every line of a long message has the same beginning.
_ERROR_LINE = re.compile(
    r"^((?:\((?:EngineCore|Worker)[^)]*\) )?ERROR ([\d-]+ [\d:]+) \[[^\]]*\] )(.*)"
)


def first_error(logs: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """The earliest exception that an engine's processes wrote, and the name of its log.

    `logs` are pairs of a log's name and its text. The replica only says that its engine has died
    ("see root cause above"); the root cause is in the logs of the engine's processes. None when no
    process wrote an exception.
    """
    found: list[tuple[str, str, str]] = []
    for name, text in logs:
        lines = [_ERROR_LINE.match(line) for line in text.splitlines()]
        for at, line in enumerate(lines):
            if line and _EXCEPTION.match(line[3]):
                same = takewhile(lambda m, b=line[1]: m and m[1] == b and m[3].strip(), lines[at:])
                found.append((line[2], "\n".join(m[3] for m in same if m), name))
    if not found:
        return None
    _, error, name = min(found, key=lambda entry: entry[0])
    return error, name


def last_exception(message: str) -> str:
    """The end of a traceback from its exception on; without one, the whole message."""
    lines = message.strip().splitlines()
    starts = [n for n, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[starts[-1] :] if starts else lines)


def thread_exception(text: str) -> str:
    """The first exception in a text whose lines may begin with the process that wrote them, as the
    traceback of a thread does: "(EngineCore pid=7) zmq.error.ZMQError: Address already in use"."""
    bare = (re.sub(r"^\([^)]*pid=\d+\) ", "", line) for line in text.splitlines())
    return next((line for line in bare if _EXCEPTION.match(line)), text.strip().partition("\n")[0])


# What vLLM 0.26 and Ray Serve LLM 2.58 write on the way up, in the order of the way; `{}` takes what
# the pattern's groups found. Progress bars go to another file than the rest and have no times.
_PHASES = [
    (r"Nothing to download from object storage", "starts"),  # the chart's own callback
    (r"Running tasks to download model files", "looks for the model's files"),
    (r"Fetching \d+ files: +(\d+)%", "downloads the model, {} %"),
    (r"Resolved architecture: \w+", "reads the model's configuration"),
    (r"Initializing a V1 LLM engine", "starts the engine's processes"),
    (r"Starting to load model", "loads weights"),
    (
        r"Loading \w+ checkpoint shards: +(\d+)% Completed \| (\d+)/(\d+)",
        "loads weights, {} % ({} of {} files)",
    ),
    (r"Loading weights took", "has its weights, prepares memory"),
    (r"Dynamo bytecode transform|for vLLM's torch\.compile|Compiling a graph", "compiles"),
    (r"torch\.compile took|GPU KV cache size", "lays out the KV cache"),
    (r"Initializing NIXL wrapper", "sets up KV transfer"),
    (r"Capturing CUDA graphs[^:]*: +(\d+)%", "captures CUDA graphs, {} %"),
    (r"init engine \(", "has its engine, makes its first steps"),
]


def phase(text: str) -> str | None:
    """How far an engine is on its way up, as in "loads weights, 40 % (2 of 5 files)"; None when the
    text says nothing about it."""
    for pattern, words in reversed(_PHASES):
        found = re.findall(pattern, text)
        if found:
            numbers = found[-1] if isinstance(found[-1], tuple) else (found[-1],)
            return words.format(*numbers)
    return None
