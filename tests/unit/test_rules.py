"""rules.yaml: every code that is raised has an entry, every entry is raised, the pages are current."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from raypd.data import load
from raypd.data.rule_pages import family_of, pages

ROOT = Path(__file__).parents[2]
RULES = {rule["code"]: rule for rule in load("rules.yaml")}


def _raised() -> set[str]:
    codes: set[str] = set()
    for path in (ROOT / "scripts" / "raypd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.fullmatch(r"RPD\d{3}", node.value):
                    codes.add(node.value)
                elif re.fullmatch(r"RPD\d{2}", node.value):
                    # The family of a schema check, whose codes end in 1 to 6 (raypd.schema).
                    codes.update(f"{node.value}{digit}" for digit in "123456")
    for path in (ROOT / "charts").rglob("*"):
        if path.suffix in (".tpl", ".yaml", ".txt"):
            codes.update(re.findall(r"\bRPD\d{3}\b", path.read_text(encoding="utf-8")))
    return codes


def test_every_code_that_is_raised_has_an_entry() -> None:
    assert _raised() - set(RULES) == set()


def test_every_entry_is_raised_somewhere() -> None:
    assert set(RULES) - _raised() == set()


@pytest.mark.parametrize("code", RULES)
def test_an_entry_says_what_why_and_what_instead(code: str) -> None:
    rule = RULES[code]
    assert set(rule) - {"source"} == {"code", "title", "severity", "why", "remedy"}
    assert rule["severity"] in ("error", "warning")
    assert not rule["title"].endswith(".")
    assert rule["why"].endswith(".")
    assert rule["remedy"].endswith(".")
    assert rule.get("source") or family_of(code)["source"]


def test_codes_are_in_order_and_each_is_there_once() -> None:
    codes = [rule["code"] for rule in load("rules.yaml")]
    assert codes == sorted(set(codes))


def test_titles_of_one_family_differ() -> None:
    titles = Counter((code[:4], rule["title"]) for code, rule in RULES.items())
    assert [title for title, count in titles.items() if count > 1] == []


def test_the_pages_are_what_the_rules_say() -> None:
    folder = ROOT / "docs" / "rules"
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == pages(), "run: python -m raypd.data.rule_pages docs/rules"
