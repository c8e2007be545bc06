"""What `raypd bench ...` does: checks the call, measures, hands back the results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from raypd.bench import kv
from raypd.bench.report import Files, Results, command_line, publish, this_machine
from raypd.report import Output, UsageError


def run_kv(
    python: Path | None,
    memories: Sequence[str],
    fabrics: Sequence[str],
    descriptors: Sequence[str],
    threads: int,
    case_seconds: int,
    time_limit: int,
    files: Files,
    output: Output,
) -> int:
    """Measures, and returns the exit code. Raises UsageError."""
    files.check()
    _known("--memory", memories, ("host", "vram"))
    _known("--fabric", fabrics, tuple(kv.FABRICS))
    layouts = [kv.pieces_of(text) for text in descriptors] or list(kv.LAYOUTS)
    env: dict[str, str] = {}
    if python is None:
        from raypd.toolchain import runtime_environment, runtime_python

        python, env = runtime_python(), runtime_environment()
    elif shutil.which(python) is None:
        raise UsageError(f"--python {python} is no program.")
    hardware = this_machine()
    question = kv.Question(
        python,
        env,
        memories or (("vram", "host") if "gpus" in hardware else ("host",)),
        fabrics or [name for name in kv.FABRICS if name != "libfabric"],
        layouts,
        threads,
        case_seconds,
        time_limit,
    )
    results = Results(command=command_line(), versions={}, hardware=hardware, rows=[])
    results.notes += [f"NIXL with {threads} threads.", *_told(os.environ)]
    with Console(stderr=True).status("Starting ...") as status:
        for row in kv.measure(question, results.versions):
            results.rows.append(row)
            files.keep(results)
            status.update(f"{row['memory']}, {row['fabric']}: {row['layout']} measured")
    return publish(results, kv.PRESENTATION, files, output)


def _known(option: str, given: Sequence[str], there: Sequence[str]) -> None:
    if unknown := [name for name in given if name not in there]:
        raise UsageError(f"{option} {', '.join(unknown)}: there are {', '.join(there)}.")


def _told(environment: Mapping[str, str]) -> list[str]:
    """What the caller's own environment says to UCX, NIXL and libfabric: it holds for all rows."""
    own = sorted(name for name in environment if name.startswith(("UCX_", "NIXL_", "FI_")))
    return [f"Set by the caller: {name}={environment[name]}" for name in own]
