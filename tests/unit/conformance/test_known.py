"""A known gap is matched by its precise symptom; what differs in anything is a failure."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from raypd import yaml_text
from raypd.conformance.known import gap_of
from raypd.conformance.outcome import Wrong
from raypd.conformance.suite import CHECKS
from raypd.data import load
from raypd.data.gap_table import page

ROOT = Path(__file__).parents[3]
GAPS = load("conformance.yaml")["gaps"]
RECORDED = yaml_text.load(Path(__file__).with_name("recorded.yaml").read_text())
ENTRY = {
    "checks": ["errors/no-json"],
    "words": "The body .* gives HTTP [0-9]+",
    "statuses": [500],
    "body": "RayTaskError",
    "gap": "g",
    "upstream": "u",
}
SYMPTOM = Wrong("The body '{' gives HTTP 500", 500, 'x RayTaskError(y) "z"')


def test_the_symptom_is_known() -> None:
    assert gap_of("errors/no-json", SYMPTOM, [ENTRY]) == ENTRY


@pytest.mark.parametrize(
    "other",
    [
        replace(SYMPTOM, status=502),
        replace(SYMPTOM, status=None),
        replace(SYMPTOM, body="Internal Server Error"),
        replace(SYMPTOM, words="The body '{' gives HTTP 500 and more"),
        replace(SYMPTOM, words="So: The body '{' gives HTTP 500"),
    ],
)
def test_what_differs_is_not(other: Wrong) -> None:
    assert gap_of("errors/no-json", other, [ENTRY]) is None


def test_another_check_is_not() -> None:
    assert gap_of("errors/param", SYMPTOM, [ENTRY]) is None


@pytest.mark.parametrize("entry", GAPS, ids=lambda entry: entry["gap"][:40])
def test_an_entry_is_whole(entry: dict) -> None:
    assert set(entry) == {"checks", "words", "statuses", "body", "gap", "upstream"}
    assert set(entry["checks"]) <= {check.id for check in CHECKS}
    assert all(isinstance(status, int | None) for status in entry["statuses"])
    assert entry["gap"].endswith(".")
    assert re.match(r"(Ray|vLLM) \d+\.\d+\.\d+, ", entry["upstream"])
    for pattern in (entry["words"], entry["body"]):
        re.compile(pattern)
    assert not re.fullmatch(entry["words"], "Something else is wrong")


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "known-gaps.md").read_text(encoding="utf-8") == page()


def test_a_gap_has_one_entry() -> None:
    assert len({entry["gap"] for entry in GAPS}) == len(GAPS)


@pytest.mark.parametrize("seen", RECORDED, ids=lambda seen: seen["check"])
def test_what_real_servers_answered_is_known_and_its_neighbour_is_not(seen: dict) -> None:
    symptom = {name: seen[name] for name in ("words", "status", "body")}
    assert gap_of(seen["check"], Wrong(**symptom)) is not None
    assert gap_of(seen["check"], Wrong(**{**symptom, **seen["other"]})) is None


def test_every_entry_was_met_at_a_real_server() -> None:
    met = {
        gap_of(seen["check"], Wrong(seen["words"], seen["status"], seen["body"]))["gap"]
        for seen in RECORDED
    }
    assert {entry["gap"] for entry in GAPS} - met == set()
