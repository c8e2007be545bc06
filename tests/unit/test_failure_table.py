"""The table of field failures: every kind ends somewhere, and what it names is there and is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raypd.data import load
from raypd.data.failure_table import STAGES, page

ROOT = Path(__file__).parents[2]
ROWS = load("field_failures.yaml")
CODES = {rule["code"] for rule in load("rules.yaml")}
# Codes by the verb that finds them; what preflight asks of a cluster, up asks too.
OF = {
    "chart": r"RPD1",
    "lint": r"RPD[2345]",
    "plan": r"RPD7",
    "preflight": r"RPD(8|68|69)",
    "live": r"RPD6[0-7]",
}
KINDS = 42


def test_every_kind_that_is_known_has_a_row() -> None:
    assert len(ROWS) == KINDS
    assert len({row["kind"] for row in ROWS}) == KINDS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kind"][:40])
def test_a_row_ends_somewhere_and_names_what_is_there(row: dict) -> None:
    stages = set(row) - {"kind"}
    assert stages
    assert stages <= {*STAGES, "open"}
    for stage in stages - {"open"}:
        for place in row[stage]:
            if place.startswith("RPD"):
                assert place in CODES
                assert re.match(OF[stage], place)
            else:
                assert (ROOT / place).is_file()


def test_every_code_of_the_table_is_met_by_a_test() -> None:
    tested = set()
    for path in (ROOT / "tests").rglob("*.py"):
        tested |= set(re.findall(r"RPD\d{3}", path.read_text(encoding="utf-8")))
    named = {place for row in ROWS for stage in STAGES for place in row.get(stage, [])}
    assert {place for place in named if place.startswith("RPD")} - tested == set()


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "field-failures.md").read_text(encoding="utf-8") == page()
