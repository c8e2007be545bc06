"""What the suite said of each server: measured by test_conformance.py, kept as JSON, shown as a table."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from measured import engine_versions, machine, measured_with, with_table
from raypd.conformance.outcome import Result, Verdict
from raypd.conformance.suite import CHECKS

# The columns, in this order; those that were not measured yet are left out.
PREFILL_AND_DECODE, UNGUARDED = "prefill and decode", "without the guard"
AGGREGATED, PLAIN_VLLM = "aggregated", "plain vLLM"
SERVERS = (PREFILL_AND_DECODE, UNGUARDED, AGGREGATED, PLAIN_VLLM)
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
    all_.machine, all_.versions = machine(), engine_versions()
    all_.servers.update(measured.servers)
    data.write_text(all_.model_dump_json(indent=2) + "\n")
    file.write_text(with_table(file.read_text(), table(all_)))


def table(results: Results) -> str:
    """The results as Markdown."""
    servers = [name for name in SERVERS if name in results.servers]
    judged = [results.servers[name] for name in servers]
    lines = [
        *measured_with(results.machine, results.versions),
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
