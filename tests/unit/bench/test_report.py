"""Results of a measurement as JSON, table, page and pictures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from raypd.bench.report import (
    Column,
    Files,
    Presentation,
    Results,
    number,
    page,
    print_table,
    publish,
    this_machine,
)
from raypd.report import UsageError

COLUMNS = (
    Column("name", "what"),
    Column("speed", "GB/s", number(3), right=True),
    Column("error", "error"),
)


def results(**row: object) -> Results:
    return Results(
        command="raypd bench x",
        versions={"NIXL": "1.3.1"},
        hardware={"cpu": "A processor", "cores": 2},
        rows=[{"name": "<tcp>", "speed": 1090.4, "error": None, **row}],
        notes=["A note."],
    )


def drawn(_: Results) -> dict:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4])
    return {"speed": figure}


SHOWN = Presentation("Speed", COLUMNS, drawn)


@pytest.mark.parametrize(
    ("value", "written"),
    [(1090.4, "1,090"), (12.04, "12"), (2.749, "2.75"), (0.4936, "0.494"), (0.0001234, "0.000123")],
)
def test_figures_have_three_digits_and_no_exponent(value: float, written: str) -> None:
    assert number(3)(value) == written


def test_the_table_says_what_was_measured_with() -> None:
    text = io.StringIO()
    print_table(results(), SHOWN, text)
    for part in ("A processor, 2 cores, NIXL 1.3.1", "<tcp>", "1,090", "A note."):
        assert part in text.getvalue()


def test_all_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path / "a.json", tmp_path / "a.html", tmp_path / "pictures" / "of")
    files.check()
    assert publish(results(), SHOWN, files, "json") == 0
    told = json.loads((tmp_path / "a.json").read_text())
    assert told == json.loads(capsys.readouterr().out)
    assert told["rows"][0]["speed"] == 1090.4
    assert told["date"].startswith("20")
    assert (tmp_path / "pictures" / "of" / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert "&lt;tcp&gt;" in (tmp_path / "a.html").read_text()


def test_the_page_needs_nothing_beside_it() -> None:
    text = page(results(), SHOWN, drawn(results()))
    assert "<svg" in text
    assert "src=" not in text and "<link" not in text


def test_a_figure_that_is_missing_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(results(speed=None, error="Too slow."), SHOWN, Files(), "human") == 1
    assert "Too slow." in capsys.readouterr().out


def test_no_picture_is_drawn_that_nobody_asked_for() -> None:
    def never(_: Results) -> dict:
        raise AssertionError("drawn")

    assert publish(results(), Presentation("Speed", COLUMNS, never), Files(), "json") == 0


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (Files(json=Path("no/such/a.json")), "--json no/such/a.json: there is no folder"),
        (Files(html=Path("no/such/a.html")), "--html no/such/a.html: there is no folder"),
        (Files(png=Path(__file__)), "that is a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_said_at_once(files: Files, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        files.check()


def test_this_machine_is_described() -> None:
    seen = this_machine()
    assert seen["cpu"] and seen["cores"] >= 1 and seen["memory_gib"] >= 1
