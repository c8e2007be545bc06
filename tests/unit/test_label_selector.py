"""Label selectors."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.label_selector import selects

HAVE = {"role": "decode", "team": "search"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"role": "decode"}},
        {"matchLabels": HAVE},
        expression("role", "In", "prefill", "decode"),
        expression("role", "NotIn", "prefill"),
        expression("zone", "NotIn", "a"),
        expression("team", "Exists"),
        expression("zone", "DoesNotExist"),
    ],
)
def test_it_meets(selector: dict[str, Any]) -> None:
    assert selects(selector, HAVE)


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"role": "prefill"}},
        {"matchLabels": {"role": "decode", "zone": "a"}},
        {"matchLabels": {"role": "decode"}, **expression("team", "NotIn", "search")},
        expression("role", "In", "prefill"),
        expression("zone", "In", "a"),
        expression("zone", "Exists"),
        expression("team", "DoesNotExist"),
        expression("team", "Near", "search"),
    ],
)
def test_it_does_not(selector: dict[str, Any]) -> None:
    assert not selects(selector, HAVE)
