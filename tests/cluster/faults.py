"""What each fault did to the service: measured by test_faults.py, kept as JSON, shown as a table."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from cluster.load import DEADLINE_SECONDS, ERROR, HUNG, OK, PAUSE_SECONDS, WRONG, Stream
from measured import engine_versions, machine, measured_with, with_table
from raypd import yaml_text
from raypd.toolchain.programs import pins

ROOT = Path(__file__).resolve().parents[2]


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
    chart = yaml_text.load((ROOT / "charts" / "ray-pd-llm" / "Chart.yaml").read_text())
    return Run(
        machine=machine(),
        versions={
            "ray-pd-llm": chart["version"],
            "Kubernetes": pins()["kubernetes"]["version"].removeprefix("v"),
            "KubeRay": pins()["kuberay"]["version"].removeprefix("v"),
            **engine_versions(),
        },
        requests=(
            f"one every {PAUSE_SECONDS} s, each with a connection of its own; hung: no answer after"
            f" {DEADLINE_SECONDS:.0f} s"
        ),
        outcomes=outcomes,
    )


def table(run: Run) -> str:
    """The run as Markdown."""
    lines = [
        *measured_with(run.machine, run.versions),
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
    file.write_text(with_table(file.read_text(), table(run)))
    file.with_suffix(".json").write_text(run.model_dump_json(indent=2) + "\n")
