"""`raypd bench kv`: what NIXL moves between two processes of the engines' own Python, and of what.

Each fabric is measured by a pair of processes (inside/kv_worker.py) in which UCX chooses as it does in
engines. A read that takes too long ends its pair; the pieces that are left get another.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypd.bench.report import Column, Presentation, Row, number
from raypd.report import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raypd.bench.report import Results

WORKER = Path(__file__).with_name("inside") / "kv_worker.py"
REPEATS = 3
START_SECONDS = 120  # of a process: imports of torch and NIXL, CUDA, and filling the buffer


@dataclass(frozen=True)
class Fabric:
    """A way for the bytes: NIXL's backend, the environment that makes UCX take it, the memories it is
    for, and what a plain program gets from the same path ("copy" or "socket")."""

    backend: str
    env: Mapping[str, str]
    memories: Sequence[str]
    yardstick: str


# `default` is what an engine gets that is told nothing. Two of one host reach each other by loopback.
FABRICS = {
    "default": Fabric("UCX", {}, ("vram", "host"), "copy"),
    "cuda-ipc": Fabric("UCX", {"UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "on"}, ("vram",), "copy"),
    # Reads go by CMA; messages need a transport that notices a lost peer, as shared memory does not.
    "cma": Fabric("UCX", {"UCX_TLS": "cma,tcp"}, ("host",), "copy"),
    "tcp": Fabric(
        "UCX", {"UCX_TLS": "tcp,cuda_copy", "UCX_NET_DEVICES": "lo"}, ("vram", "host"), "socket"
    ),
    "libfabric": Fabric("LIBFABRIC", {}, ("vram", "host"), "copy"),
}


@dataclass(frozen=True)
class Pieces:
    """So many descriptors of so many bytes."""

    count: int
    size: int

    @property
    def bytes(self) -> int:
        return self.count * self.size

    def __str__(self) -> str:
        return f"{self.count} x {_size(self.size)}"


# A prompt of 4,096 tokens of an 8B model as blocks can lie in memory: 36 layers, 8 heads of 128 numbers
# of two bytes for keys and as many for values, 147,456 bytes a token.
LAYOUTS = (
    Pieces(1, 603_979_776),
    Pieces(36, 16_777_216),  # a piece a layer
    Pieces(256, 2_359_296),  # blocks of 16 tokens across all layers
    Pieces(4608, 131_072),  # blocks of 32 tokens
    Pieces(9216, 65_536),  # blocks of 16 tokens: what vLLM 0.26 registers if it is told nothing
    Pieces(18432, 32_768),  # keys and values apart
)
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def pieces_of(text: str) -> Pieces:
    """ "4608x128KiB" as Pieces. Raises UsageError."""
    found = re.fullmatch(r"(\d+)\s*x\s*(\d+)\s*([KMG]iB)?", text)
    if not found or not int(found[1]) or int(found[2]) * _UNITS[found[3] or ""] % 8 != 0:
        raise UsageError(
            f"--descriptors {text!r}: write a number and a size that eight divides, as 4608x128KiB."
        )
    if not int(found[2]):
        raise UsageError(f"--descriptors {text!r}: a descriptor of no bytes moves nothing.")
    return Pieces(int(found[1]), int(found[2]) * _UNITS[found[3] or ""])


@dataclass(frozen=True)
class Question:
    """What is measured: the options of the command line. Times are in seconds."""

    python: Path
    env: Mapping[str, str]
    memories: Sequence[str]
    fabrics: Sequence[str]
    layouts: Sequence[Pieces]
    threads: int = 4
    case_seconds: float = 20
    time_limit: float = 900


def measure(question: Question, versions: dict[str, str]) -> Iterator[Row]:
    """A row for each memory, fabric and layout; fills `versions` with what the processes report."""
    until = time.monotonic() + question.time_limit
    for memory in question.memories:
        for name in question.fabrics:
            if memory in FABRICS[name].memories:
                yield from _of_fabric(question, memory, name, until, versions)


def _of_fabric(
    question: Question, memory: str, name: str, until: float, versions: dict[str, str]
) -> Iterator[Row]:
    fabric, left = FABRICS[name], list(question.layouts)
    yardstick: float | None = None
    while left:
        pair: Pair | None = None
        try:
            pair = Pair(question, fabric, memory, max(p.bytes for p in question.layouts), until)
            versions |= pair.versions
            if fabric.yardstick == "socket" and yardstick is None:
                most = min(max(p.bytes for p in question.layouts), 64 << 20)
                told = pair.ask(
                    {"do": "socket", "size": most, "repeats": REPEATS}, question.case_seconds, until
                )
                yardstick = most / min(told["seconds"]) / 1e9
            while left:
                yield _row(question, pair, memory, name, left[0], yardstick, until)
                left.pop(0)
        except Failure as failure:
            for pieces in left if failure.final else left[:1]:
                yield _empty(memory, name, pieces) | {"error": str(failure)}
            left = [] if failure.final else left[1:]
        finally:
            if pair is not None:
                pair.end()


def _row(
    question: Question,
    pair: Pair,
    memory: str,
    name: str,
    pieces: Pieces,
    yardstick: float | None,
    until: float,
) -> Row:
    ask = {"count": pieces.count, "size": pieces.size, "repeats": REPEATS}
    budget = question.case_seconds / 2
    read = pair.ask({"do": "read", **ask, "budget": budget}, question.case_seconds, until)
    if yardstick is None:
        copied = pair.ask({"do": "copy", **ask}, question.case_seconds, until)
        yardstick = pieces.bytes / statistics.median(copied["seconds"]) / 1e9
    rate = pieces.bytes / statistics.median(read["seconds"]) / 1e9
    return _empty(memory, name, pieces) | {
        "path": path_of(pair.log(), pieces.size),
        "gb_per_s": rate,
        "best_gb_per_s": pieces.bytes / min(read["seconds"]) / 1e9,
        "first_s": read["first"],
        "prepare_s": read["prepare"],
        "yardstick": FABRICS[name].yardstick,
        "yardstick_gb_per_s": yardstick,
        "share": rate / yardstick,
    }


def _empty(memory: str, name: str, pieces: Pieces) -> Row:
    figures = ("path", "gb_per_s", "best_gb_per_s", "first_s", "prepare_s")
    return {
        "memory": memory,
        "fabric": name,
        "env": dict(FABRICS[name].env),
        "descriptors": pieces.count,
        "bytes_each": pieces.size,
        "layout": str(pieces),
        **dict.fromkeys((*figures, "yardstick", "yardstick_gb_per_s", "share", "error")),
    }


class Failure(Exception):
    """Why a case has no figure. `final`: the fabric has none for any layout."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Pair:
    """Target and initiator, started and connected. Raises Failure."""

    def __init__(
        self, question: Question, fabric: Fabric, memory: str, size: int, until: float
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="raypd-bench-")
        folder = Path(self._folder.name)
        self._ends = {
            role: _End(question, fabric, folder / f"{role}.log") for role in ("target", "initiator")
        }
        common = {"backend": fabric.backend, "memory": memory, "bytes": size}
        common["threads"] = question.threads
        try:
            hello = self._greet("target", {**common, "listen": "127.0.0.1"}, until)
            answer = self._greet("initiator", {**common, "target": hello}, until)
        except BaseException:
            self.end()
            raise
        self.versions: dict[str, str] = answer["versions"]

    def ask(self, request: dict[str, Any], seconds: float, until: float) -> dict[str, Any]:
        """The initiator's answer, within `seconds` and before `until`."""
        answer = self._ends["initiator"].ask(request, seconds, until)
        if "error" in answer:
            raise Failure(f"{answer['error']}.")
        return answer

    def log(self) -> str:
        """What NIXL and UCX wrote in the initiator."""
        return self._ends["initiator"].log.read_text(errors="replace")

    def end(self) -> None:
        """Both processes are killed: NIXL's clean-up waits for peers, and nothing is kept."""
        for end in self._ends.values():
            end.kill()
        self._folder.cleanup()

    def _greet(self, role: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        answer = self._ends[role].ask({**request, "role": role}, START_SECONDS, until)
        if "error" in answer:
            raise Failure(f"The {role} did not start: {answer['error']}.", final=True)
        return answer


class _End:
    """One process, spoken to by lines of JSON."""

    def __init__(self, question: Question, fabric: Fabric, log: Path) -> None:
        self.log = log
        # UCX then writes what it chose for each kind of access.
        env = {**os.environ, **question.env, "UCX_PROTO_INFO": "y", **fabric.env}
        with log.open("w") as stderr:
            try:
                self._process = subprocess.Popen(
                    [question.python, WORKER],
                    env=env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(
                    f"--python {question.python} cannot be started: {error.strerror}."
                ) from error
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, request: dict[str, Any], seconds: float, until: float) -> dict[str, Any]:
        left = until - time.monotonic()
        if left <= 0:
            raise Failure("Not measured: the time limit was reached.", final=True)
        with suppress(BrokenPipeError):  # it has ended; the queue says so
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=min(seconds, left))
        except queue.Empty:
            raise Failure(f"Not done after {min(seconds, left):.0f} s, and ended.") from None
        if not line:
            last = (self.log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
            raise Failure(f"The process ended with: {last}", final="role" in request)
        return json.loads(line)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


_TABLE = re.compile(r"remote memory read by ucp_get\S* into")
_RANGE = re.compile(r"\|\s+(\d+)(?:\.\.(\d+|inf))? \| (\S[^|]*?)\s+\| (\S[^|]*?)\s+\|")


def path_of(log: str, size: int) -> str | None:
    """How UCX says it reads pieces of `size` bytes: the last table of reads that covers the size."""
    found, inside = None, False
    for line in log.splitlines():
        if "| ucp_context" in line:
            inside = bool(_TABLE.search(line))
        elif inside and (row := _RANGE.search(line)):
            first, last, how, over = row.groups()
            end = float(last or first)
            if int(first) <= size <= end:
                found = f"{how}, {over}"
    return found


def _size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]} {unit}"
    return f"{size:,} B"


def draw(results: Results) -> dict[str, Figure]:
    """A picture for each memory: GB/s against the size of a descriptor, and the yardsticks."""
    from matplotlib.figure import Figure

    pictures = {}
    for memory in dict.fromkeys(row["memory"] for row in results.rows):
        rows = [r for r in results.rows if r["memory"] == memory and r["gb_per_s"] is not None]
        if not rows:
            continue
        figure = Figure(figsize=(9, 5), layout="constrained")
        axes = figure.subplots()
        for fabric in dict.fromkeys(row["fabric"] for row in rows):
            _line(axes, [r for r in rows if r["fabric"] == fabric], "gb_per_s", fabric, marker="o")
        # One line for each: the fabrics of a memory share the path of a plain copy.
        for kind, fabric in {r["yardstick"]: r["fabric"] for r in reversed(rows)}.items():
            mine = [r for r in rows if r["fabric"] == fabric]
            style = {"color": "black", "linestyle": {"copy": ":", "socket": "--"}[kind]}
            _line(axes, mine, "yardstick_gb_per_s", f"plain {kind}", **style)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="bytes of a descriptor",
            ylabel="GB/s",
            title=f"KV transfer, {memory} memory",
        )
        axes.grid(which="both", alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=5, frameon=False)
        pictures[f"kv-{memory}"] = figure
    return pictures


def _line(axes: Axes, rows: Sequence[Row], figure: str, label: str, **style: str) -> None:
    ordered = sorted(rows, key=lambda row: row["bytes_each"])
    sizes = [row["bytes_each"] for row in ordered]
    axes.plot(sizes, [row[figure] for row in ordered], label=label, **style)


PRESENTATION = Presentation(
    "KV transfer by NIXL",
    (
        Column("memory", "memory"),
        Column("fabric", "fabric"),
        Column("layout", "descriptors", right=True),
        Column("gb_per_s", "GB/s", number(3), right=True),
        Column("yardstick_gb_per_s", "plain", number(3), right=True),
        Column("share", "share", "{:.0%}".format, right=True),
        Column("path", "UCX reads by"),
        Column("error", "error"),
    ),
    draw,
)
