"""What `raypd bench ...` does: checks the call, measures, hands back the results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from raypd.bench import kv
from raypd.bench.ends import Here, Start
from raypd.bench.report import Files, Results, command_line, publish, this_machine
from raypd.report import Output, UsageError


@dataclass(frozen=True)
class KvOptions:
    """Those of `raypd bench kv` that hold here and in a release; empty where nothing is said."""

    memories: Sequence[str]
    fabrics: Sequence[str]
    descriptors: Sequence[str]
    threads: int
    case_seconds: int
    time_limit: int

    def question(
        self,
        starts: tuple[Start, Start],
        listen: str,
        memories: Sequence[str],
        fabrics: Mapping[str, kv.Fabric],
        usual: Sequence[str],
    ) -> kv.Question:
        """What is measured: of the `memories` and `usual` fabrics unless others are named. Raises UsageError."""
        _known("--memory", self.memories, ("host", "vram"))
        _known("--fabric", self.fabrics, tuple(fabrics))
        return kv.Question(
            starts,
            listen,
            self.memories or memories,
            {name: fabrics[name] for name in self.fabrics or usual},
            [kv.pieces_of(text) for text in self.descriptors] or list(kv.LAYOUTS),
            self.threads,
            self.case_seconds,
            self.time_limit,
        )


def run_kv(python: Path | None, options: KvOptions, files: Files, output: Output) -> int:
    """Measures on this machine, and returns the exit code. Raises UsageError."""
    files.check()
    env: dict[str, str] = {}
    if python is None:
        from raypd.toolchain import runtime_environment, runtime_python

        python, env = runtime_python(), runtime_environment()
    elif shutil.which(python) is None:
        raise UsageError(f"--python {python} is no program.")
    hardware = this_machine()
    start = partial(_here, python, env)
    question = options.question(
        (start, start),
        "127.0.0.1",
        ("vram", "host") if "gpus" in hardware else ("host",),
        kv.FABRICS,
        [name for name in kv.FABRICS if name != "libfabric"],
    )
    return _measure(question, hardware, _told(os.environ), files, output)


def run_kv_of_release(
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    options: KvOptions,
    files: Files,
    output: Output,
) -> int:
    """Measures between a prefill pod and a decode pod, and returns the exit code. Raises UsageError."""
    from raypd.bench import in_pods
    from raypd.live import served
    from raypd.live.cluster import Cluster

    files.check()
    cluster = Cluster(kubeconfig, context)
    found = served.find(cluster, release, namespace)
    target, _ = in_pods.pair(found)
    question = options.question(
        in_pods.starts(cluster, found),
        target["status"]["podIP"],
        ("host",),
        in_pods.fabrics(found),
        ("default", "tcp"),
    )
    told = [*_told(served.environment(target)), "The engines beside it served at the same time."]
    return _measure(question, in_pods.hardware(found), told, files, output)


def _here(python: Path, env: Mapping[str, str], more: Mapping[str, str]) -> Here:
    return Here(python, {**env, **more})


def _measure(
    question: kv.Question,
    hardware: dict[str, str | int | float],
    told: Sequence[str],
    files: Files,
    output: Output,
) -> int:
    results = Results(command=command_line(), versions={}, hardware=hardware, rows=[])
    results.notes += [f"NIXL with {question.threads} threads.", *told]
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
    """What the environment of the processes says to UCX, NIXL and libfabric: it holds for all rows."""
    own = sorted(name for name in environment if name.startswith(("UCX_", "NIXL_", "FI_")))
    return [f"Set in the environment: {name}={environment[name]}" for name in own]
