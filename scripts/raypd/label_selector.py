"""Label selectors, as Kubernetes decides by them."""

from __future__ import annotations

from typing import Any

from raypd.lint.subject import mapping, sequence

Json = dict[str, Any]


def selects(selector: Json, have: Json) -> bool:
    """Whether a LabelSelector meets an object with the labels `have`; an empty one selects all."""
    for key, value in mapping(selector.get("matchLabels")).items():
        if have.get(key) != value:
            return False
    for need in map(mapping, sequence(selector.get("matchExpressions"))):
        value, values = have.get(need.get("key")), sequence(need.get("values"))
        met = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not met.get(str(need.get("operator")), False):
            return False
    return True
