"""Links in the README and the docs lead somewhere."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as Git hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} does not exist"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{target}: no such heading"


@cache
def named_in(file: Path) -> set[str]:
    """Names of the tests in a file, and the file's own."""
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {file.stem} | {node.name for node in nodes if isinstance(node, functions)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_tests_that_are_named_exist(page):
    for name, target in re.findall(r"\[(test_\w+)\]\(([^)\s]+\.py)\)", page.read_text()):
        file = (page.parent / target).resolve()
        assert name in named_in(file), f"{target} has no test {name}"


def test_every_threat_names_what_stops_it_and_a_test():
    text = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| (?!tries to|---)(.+) \|$", text, re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        attempt, stopped_by, shown_by = row.split(" | ")
        assert attempt and stopped_by
        links = re.findall(r"\[test_\w+\]\(\.\./tests/[^)]+\.py\)", shown_by)
        assert links and ", ".join(links) == shown_by, attempt
