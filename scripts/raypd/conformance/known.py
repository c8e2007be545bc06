"""Deviations that are known upstream, each by its precise symptom (data/conformance.yaml)."""

from __future__ import annotations

import re
from typing import Any

from raypd.conformance.outcome import Wrong
from raypd.data import load


def gap_of(check: str, wrong: Wrong, entries: list[dict[str, Any]] | None = None) -> Any:
    """The entry of the deviation, None when it is not known. Check, words, status and body have to
    be those of the entry: what differs in any of them is a failure."""
    for entry in load("conformance.yaml")["gaps"] if entries is None else entries:
        if (
            check in entry["checks"]
            and re.fullmatch(entry["words"], wrong.words, re.DOTALL)
            and wrong.status in entry["statuses"]
            and re.search(entry["body"], wrong.body, re.DOTALL)
        ):
            return entry
    return None
