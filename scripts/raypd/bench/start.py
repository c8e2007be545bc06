"""What `raypd bench start` does: how long engines took to start, and where each second went."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
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
from raypd.evidence import unseen_prompt
from raypd.local import chat, state, verb
from raypd.local.state import State
from raypd.render import ValueArguments
from raypd.report import Output


def run(names: Sequence[str], files: Files, output: Output) -> int:
    """Of local runs that are up."""
    files.check()
    rows = [row for name in names for row in of_run(state.need(name))]
    results = Results(
        command=command_line(), versions=runtime_versions(), hardware=this_machine(), rows=rows
    )
    results.notes += notes(results.rows)
    return publish(results, PRESENTATION, files, output)


def run_twice(
    chart: Path | None, arguments: ValueArguments, wait: int, files: Files, output: Output
) -> int:
    """Serves the chart here with empty caches, and again with what that left in them."""
    files.check()
    stages = verb.Stages()
    rows: list[Row] = []
    with verb.interruptible(), tempfile.TemporaryDirectory(prefix="raypd-start-") as caches:
        for name in ("cold", "warm"):
            up = verb.start(chart, arguments, name, wait, stages, volume=Path(caches))
            try:
                rows += of_run(up)
            finally:
                verb.end(up)
    for row in rows:
        if row["where"] == "warm":
            row["error"] = row["error"] or missed(row)
    results = Results(
        command=command_line(), versions=runtime_versions(), hardware=this_machine(), rows=rows
    )
    results.notes += notes(results.rows)
    return publish(results, PRESENTATION, files, output)


def missed(row: Row) -> str | None:
    """What a start did that the caches should have spared it; None when they spared it all."""
    compiled, downloads = row["graphs_compiled"], row["downloads"]
    if not compiled and not downloads:
        return None
    return f"the caches did not hit: {compiled} graphs compiled, {downloads} downloads"


def run_release(
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    files: Files,
    output: Output,
) -> int:
    """Of a release in a cluster. Raises UsageError when there is none, or it may not be looked at."""
    from raypd.live.cluster import Cluster

    files.check()
    cluster = Cluster(kubeconfig, context)
    results = Results(
        command=command_line(),
        versions={},
        hardware={},
        rows=list(of_pods(cluster, release, namespace)),
    )
    results.notes += notes(results.rows)
    return publish(results, PRESENTATION, files, output)


_NOTE = (
    "replica: until the engine's actor runs. config: the model's files, configuration, tokenizer."
    " processes: of the engine. compile, capture and NIXL are parts of init. A column that is empty for"
    " an engine is a step that its log does not have."
)


def notes(rows: Sequence[Row]) -> list[str]:
    """What has to be known to read the rows."""
    if any(row["graphs_compiled"] or row["graphs_reused"] or row["compile"] for row in rows):
        return [_NOTE]
    return [_NOTE, _EAGER]


_EAGER = (
    "No engine compiled a graph or took one from a cache: they run eagerly (enforce_eager), as on the CPU"
    " by values/local-cpu.yaml. So this says nothing about the compile cache."
)


def of_run(run: State) -> list[Row]:
    """A row for each engine of a local run. What was written into the caches stands in each of them,
    since they share them."""
    begin = datetime.fromtimestamp(run.started)
    written = _written([Path(folder) for folder in run.caches.values()], run.started)
    first = chat.ask(run, unseen_prompt(), max_tokens=2, stream=True).first_seconds
    rows = []
    for node in run.groups:
        if node == "head":
            continue
        logs = sorted(run.folder.glob(f"ray/{node}/session_2*/logs/worker-*.*"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        rows.append(_row(run.name, node, timeline.read(lines, begin), written, first=first))
    return rows


def of_pods(cluster, release: str, namespace: str) -> Iterator[Row]:
    """A row for each engine pod of a release."""
    from raypd.bench import pod_start
    from raypd.live.served import find
    from raypd.report import UsageError

    served = find(cluster, release, namespace)
    events = cluster.list(f"/api/v1/namespaces/{namespace}/events")
    for pod in served.pods:
        name = pod["metadata"]["name"]
        own = [e for e in events if e["involvedObject"].get("uid") == pod["metadata"]["uid"]]
        waited = pod_start.scheduled(pod)
        pulled = pod_start.image(own)
        began = pod_start.container_began(pod)
        made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        to_container = (began - made).total_seconds() if began else None
        try:
            lines, begin, count, size = pod_start.read(cluster, pod)
        except UsageError as error:
            yield _row(release, name, timeline.read([], made), (0, 0), error=str(error))
            continue
        yield _row(
            release,
            name,
            timeline.read(lines, begin),
            (count, size),
            scheduled=waited,
            image=pulled,
            to_container=to_container,
        )


def _row(
    where: str,
    engine: str,
    start: timeline.Start,
    written: tuple[int, int],
    *,
    scheduled: float | None = None,
    image: float | None = None,
    to_container: float | None = None,
    first: float | None = None,
    error: str | None = None,
) -> Row:
    if error is None and start.init is None:
        error = "its log does not say that the engine is up; Ray may have begun another since"
    told = asdict(start)
    if start.to_ready is not None and to_container is not None:
        told["to_ready"] = round(start.to_ready + to_container, 2)
    files, size = written
    return {
        "where": where,
        "engine": engine,
        "scheduled": scheduled,
        "image": image,
        "to_container": to_container,
        **told,
        "first_token": first,
        "cache_files_written": files,
        "cache_bytes_written": size,
        "error": error,
    }


def _written(folders: Sequence[Path], since: float) -> tuple[int, int]:
    """Files in cache folders that were written since then, and their bytes; each once, as one folder
    may lie in another."""
    files = {path.resolve() for folder in folders if folder.is_dir() for path in folder.rglob("*")}
    found = [path.stat() for path in files if path.is_file()]
    sizes = [status.st_size for status in found if status.st_mtime >= since]
    return len(sizes), sum(sizes)


_SECONDS = number(3)
PRESENTATION = Presentation(
    title="Start of engines, in seconds",
    columns=[
        Column("where", "of"),
        Column("engine", "engine"),
        Column("scheduled", "node", _SECONDS, right=True),
        Column("image", "image", _SECONDS, right=True),
        Column("to_container", "container", _SECONDS, right=True),
        Column("to_replica", "replica", _SECONDS, right=True),
        Column("to_engine", "config", _SECONDS, right=True),
        Column("to_load", "processes", _SECONDS, right=True),
        Column("weights", "weights", _SECONDS, right=True),
        Column("init", "init", _SECONDS, right=True),
        Column("compile", "compile", _SECONDS, right=True),
        Column("capture", "capture", _SECONDS, right=True),
        Column("nixl", "NIXL", _SECONDS, right=True),
        Column("to_ready", "in all", _SECONDS, right=True),
        Column("first_token", "first token", _SECONDS, right=True),
        Column("graphs_compiled", "compiled", right=True),
        Column("graphs_reused", "reused", right=True),
        Column("downloads", "downloads", right=True),
        Column("cache_files_written", "files written", right=True),
        Column("error", "error"),
    ],
)
