"""The table of faults in the docs is that of the run that lies beside it."""

from __future__ import annotations

import pytest

from cluster import faults
from cluster.faults import ROOT, Outcome, Run
from measured import BEGIN, END, with_table

PAGE = ROOT / "docs" / "faults.md"
OUTCOME = Outcome(
    fault="a plug pulled",
    sent=10,
    ok=7,
    error=2,
    hung=1,
    wrong=0,
    recovery_seconds=12.6,
    seen={"HTTP 500": 2, "ReadTimeout": 1},
)


@pytest.fixture(scope="module")
def written() -> Run:
    return Run.model_validate_json(PAGE.with_suffix(".json").read_text())


def test_the_page_shows_the_run(written):
    assert with_table(PAGE.read_text(), faults.table(written)) == PAGE.read_text()


def test_every_request_of_the_run_is_accounted_for(written):
    for outcome in written.outcomes:
        assert outcome.sent == outcome.ok + outcome.error + outcome.hung + outcome.wrong
        assert sum(outcome.seen.values()) == outcome.sent - outcome.ok
        assert outcome.ok > 0


def test_nothing_was_answered_wrongly(written):
    assert [outcome.fault for outcome in written.outcomes if outcome.wrong] == []


def test_a_run_is_written_with_machine_and_versions(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    run = faults.run([OUTCOME])
    faults.write(page, run)
    text = page.read_text()
    assert "| a plug pulled | 10 | 7 | 2 | 1 | 0 | 13 | 2 x HTTP 500, 1 x ReadTimeout |" in text
    assert f"Ray {run.versions['Ray']}" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert Run.model_validate_json(page.with_suffix(".json").read_text()) == run
