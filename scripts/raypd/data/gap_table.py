"""Makes docs/known-gaps.md: what `raypd conformance` calls a known gap, and where each comes from.

python -m raypd.data.gap_table docs/known-gaps.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from raypd.data import load

_HEAD = """\
<!-- Made from scripts/raypd/data/conformance.yaml by raypd.data.gap_table; edit there. -->

# Known gaps of the servers

Where a server is known to differ from OpenAI's API. [`raypd conformance`](conformance.md) calls a deviation a
known gap only where it shows the very symptom that is written down for it (check, sentence, status, and what
stands in the answer); whatever differs in any of these is a failure.

| what a user meets | found by | upstream |
| --- | --- | --- |
"""


def page() -> str:
    """The text of the page."""
    return _HEAD + "".join(map(_row, load("conformance.yaml")["gaps"]))


def _row(gap: dict[str, Any]) -> str:
    checks = ", ".join(f"`{check}`" for check in gap["checks"])
    return f"| {gap['gap']} | {checks} | {gap['upstream']} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
