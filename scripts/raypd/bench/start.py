"""What `raypd bench start` does: how long engines took to start, and where each second went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from raypd.bench import timeline
from raypd.bench.load import runtime_versions
from raypd.bench.report import (
    Column,
    Files,
    Presentation,
    Results,
    Row,
    command_line,
    number,
    publish,
    this_machine,
)
from raypd.local import state
from raypd.local.state import State
from raypd.report import Output


def run(names: Sequence[str], files: Files, output: Output) -> int:
    """Reads the logs of local runs that are up, and reports."""
    files.check()
    rows = [row for name in names for row in _rows(state.need(name))]
    results = Results(
        command=command_line(),
        versions=runtime_versions(),
        hardware=this_machine(),
        rows=rows,
        notes=[
            "compile, capture and NIXL are parts of init. What a row leaves open is not in that engine's"
            " log: it has no such step."
        ],
    )
    return publish(results, PRESENTATION, files, output)


def _rows(run: State) -> list[Row]:
    """One for each engine; the files that appeared in the caches since the run began, in the first."""
    begin = datetime.fromtimestamp(run.started)
    rows: list[Row] = []
    for node in run.groups:
        if node == "head":
            continue
        logs = sorted(run.folder.glob(f"ray/{node}/session_2*/logs/worker-*.*"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        start = timeline.read(lines, begin)
        missing = (
            None if start.init is not None else f"{node} has not written that its engine is up"
        )
        rows.append({"run": run.name, "engine": node, **asdict(start), "error": missing})
    written = {name: _written(Path(folder), run.started) for name, folder in run.caches.items()}
    for row in rows:
        row["cache_files_written"] = sum(files for files, _ in written.values())
        row["cache_bytes_written"] = sum(size for _, size in written.values())
    return rows


def _written(folder: Path, since: float) -> tuple[int, int]:
    """Files below a cache folder that were written since then, and their bytes."""
    found = [p.stat() for p in folder.rglob("*") if p.is_file()] if folder.is_dir() else []
    sizes = [status.st_size for status in found if status.st_mtime >= since]
    return len(sizes), sum(sizes)


_SECONDS = number(3)
PRESENTATION = Presentation(
    title="Start of engines, in seconds",
    columns=[
        Column("run", "run"),
        Column("engine", "engine"),
        Column("to_replica", "replica", _SECONDS, right=True),
        Column("to_engine", "config", _SECONDS, right=True),
        Column("to_load", "processes", _SECONDS, right=True),
        Column("weights", "weights", _SECONDS, right=True),
        Column("init", "init", _SECONDS, right=True),
        Column("compile", "compile", _SECONDS, right=True),
        Column("capture", "capture", _SECONDS, right=True),
        Column("nixl", "NIXL", _SECONDS, right=True),
        Column("to_ready", "in all", _SECONDS, right=True),
        Column("graphs_compiled", "compiled", right=True),
        Column("graphs_reused", "reused", right=True),
        Column("downloads", "downloads", right=True),
        Column("cache_files_written", "files written", right=True),
        Column("error", "error"),
    ],
)
