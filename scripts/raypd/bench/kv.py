"""`raypd bench kv`: what NIXL moves between two processes of the engines' own Python, and of what.

Each fabric is measured by a pair of processes (inside/kv_worker.py) in which UCX chooses as it does in
engines. A read that takes too long ends its pair; the pieces that are left get another.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raypd.bench.ends import START_SECONDS, End, Failure, Start
from raypd.bench.report import Column, Presentation, Row, number
from raypd.report import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from raypd.bench.report import Results

REPEATS = 3


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
    """What is measured, by the options of the command line: the target and the initiator as they are
    started, and where the target listens for a plain connection. Times are in seconds."""

    starts: tuple[Start, Start]
    listen: str
    memories: Sequence[str]
    fabrics: Mapping[str, Fabric]
    layouts: Sequence[Pieces]
    threads: int = 4
    case_seconds: float = 20
    time_limit: float = 900


def measure(question: Question, versions: dict[str, str]) -> Iterator[Row]:
    """A row for each memory, fabric and layout; fills `versions` with what the processes report."""
    until = time.monotonic() + question.time_limit
    for memory in question.memories:
        for name in question.fabrics:
            if memory in question.fabrics[name].memories:
                yield from _of_fabric(question, memory, name, until, versions)


def _of_fabric(
    question: Question, memory: str, name: str, until: float, versions: dict[str, str]
) -> Iterator[Row]:
    fabric, left = question.fabrics[name], list(question.layouts)
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
                yield _empty(question, memory, name, pieces) | {"error": str(failure)}
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
    return _empty(question, memory, name, pieces) | {
        "path": path_of(pair.log(), pieces.size),
        "gb_per_s": rate,
        "best_gb_per_s": pieces.bytes / min(read["seconds"]) / 1e9,
        "first_s": read["first"],
        "prepare_s": read["prepare"],
        "yardstick": question.fabrics[name].yardstick,
        "yardstick_gb_per_s": yardstick,
        "share": rate / yardstick,
    }


def _empty(question: Question, memory: str, name: str, pieces: Pieces) -> Row:
    figures = ("path", "gb_per_s", "best_gb_per_s", "first_s", "prepare_s")
    return {
        "memory": memory,
        "fabric": name,
        "env": dict(question.fabrics[name].env),
        "descriptors": pieces.count,
        "bytes_each": pieces.size,
        "layout": str(pieces),
        **dict.fromkeys((*figures, "yardstick", "yardstick_gb_per_s", "share", "error")),
    }


class Pair:
    """Target and initiator, started and connected. Raises Failure."""

    def __init__(
        self, question: Question, fabric: Fabric, memory: str, size: int, until: float
    ) -> None:
        self._ends: list[End] = []
        common = {"backend": fabric.backend, "memory": memory, "bytes": size}
        common |= {"threads": question.threads, "seconds": until - time.monotonic()}
        try:
            for start in question.starts:
                self._ends.append(start(fabric.env))
            hello = self._greet("target", {**common, "listen": question.listen}, until)
            answer = self._greet("initiator", {**common, "target": hello}, until)
        except BaseException:
            self.end()
            raise
        self.versions: dict[str, str] = answer["versions"]

    def ask(self, request: dict[str, Any], seconds: float, until: float) -> dict[str, Any]:
        """The initiator's answer, within `seconds` and before `until`."""
        answer = self._ends[1].ask(request, seconds, until)
        if "error" in answer:
            raise Failure(f"{answer['error']}.")
        return answer

    def log(self) -> str:
        """What NIXL and UCX wrote in the initiator."""
        return self._ends[1].log()

    def end(self) -> None:
        """Both processes are killed."""
        for end in self._ends:
            end.kill()

    def _greet(self, role: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        end = self._ends[("target", "initiator").index(role)]
        answer = end.ask({**request, "role": role}, START_SECONDS, until)
        if "error" in answer:
            raise Failure(f"The {role} did not start: {answer['error']}.", final=True)
        return answer


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
