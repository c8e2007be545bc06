"""Makes docs/field-failures.md: what stands against each kind of failure that people report.

python -m raypd.data.failure_table docs/field-failures.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from raypd.data import load

STAGES = ("chart", "lint", "plan", "preflight", "live")

_HEAD = """\
<!-- Made from scripts/raypd/data/field_failures.yaml by raypd.data.failure_table; edit there. -->

# What goes wrong in the field

The kinds of failure that people report for this stack, and where each ends here. The earlier the column,
the cheaper: the chart does not render it, `raypd lint` finds it offline, `raypd plan` and `upgrade-plan` work
it out, `raypd preflight` sees it in the account and the cluster before anything is created, and `raypd up`,
`status`, `doctor`, `verify` and `conformance` on what runs. A code is the finding that says so; a test holds
what no finding is needed for. `preflight` and `up` share their checks of the cluster (RPD68 and RPD69).

| # | kind | chart | lint | plan | preflight | live |
| --: | --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The text of the page."""
    rows = [_row(number, row) for number, row in enumerate(load("field_failures.yaml"), 1)]
    return _HEAD + "\n".join(rows) + "\n"


def _row(number: int, row: dict[str, Any]) -> str:
    cells = [", ".join(map(_link, row.get(stage, []))) for stage in STAGES]
    if "open" in row:
        cells[-1] = f"not yet: {row['open']}"
    return f"| {number} | {row['kind']} | {' | '.join(cells)} |"


def _link(place: str) -> str:
    if place.startswith("RPD"):
        return f"[{place}](rules/{place}.md)"
    return f"[{Path(place).stem}](../{place})"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
