"""Makes the pages of docs/rules from rules.yaml and rule_families.yaml: one per code, and an index.

python -m raypd.data.rule_pages docs/rules
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from raypd.data import load

_NOTE = "<!-- Made from scripts/raypd/data/rules.yaml by raypd.data.rule_pages; edit there. -->"


def pages() -> dict[str, str]:
    """File name -> text."""
    rules = load("rules.yaml")
    made = {f"{rule['code']}.md": _page(rule) for rule in rules}
    made["README.md"] = _index(rules)
    return made


def family_of(code: str) -> dict[str, Any]:
    """The family of a code: the longest beginning that has one."""
    families = load("rule_families.yaml")
    fitting = [start for start in families if code.startswith(start)]
    return families[max(fitting, key=len)]


def _page(rule: dict[str, Any]) -> str:
    family = family_of(rule["code"])
    return "\n".join(
        [
            _NOTE,
            "",
            f"# {rule['code']}: {rule['title']}",
            "",
            f"{rule['severity'].capitalize()} · [{family['title']}](README.md)",
            "",
            "## Why",
            "",
            rule["why"],
            "",
            "## Instead",
            "",
            _sentence(rule["remedy"]),
            "",
            "## Source",
            "",
            rule.get("source", family["source"]),
            "",
        ]
    )


def _index(rules: list[dict[str, Any]]) -> str:
    lines = [
        _NOTE,
        "",
        "# What raypd and the chart report",
        "",
        "An error fails on the cluster; a warning misleads or will stop working. RPD1 to RPD5 are found",
        "offline, by `raypd lint` and the chart, RPD6 on a live cluster, RPD70 and RPD71 by the arithmetic",
        "of `raypd plan`, RPD72 and RPD73 by `raypd upgrade-plan`, RPD8 in the account, the registry, the",
        "hub and the cluster by `raypd preflight`.",
    ]
    family = None
    for rule in rules:
        code = rule["code"]
        if (title := family_of(code)["title"]) != family:
            family = title
            lines += ["", f"## {family}", "", "| code | severity | what |", "| --- | --- | --- |"]
        lines.append(f"| [{code}]({code}.md) | {rule['severity']} | {rule['title']} |")
    return "\n".join([*lines, ""])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for stale in set(folder.glob("*.md")) - {folder / name for name in made}:
        stale.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
