"""Where two objects differ, with both values; what the API server and KubeRay do to an object on its way
is no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubernetes.utils import parse_quantity

Json = dict[str, Any]
Same = Callable[[Json, Any, Any], bool]

_MIXED = "x-kubernetes-int-or-string"

# Fields that Go leaves out when they are false (k8s.io/api/core/v1, bool and not *bool with omitempty);
# of all others false is a value of its own.
_PLAIN_FLAGS = frozenset(
    ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"]
)

# What of the schemas of Kubernetes' objects decides here, for where none can be had: by the name of a
# field, wherever it is.
_AMOUNTS: Json = {"additionalProperties": {_MIXED: True}}
WITHOUT_SCHEMA: Json = {
    "properties": {
        "protocol": {"default": "TCP"},
        "limits": _AMOUNTS,
        "requests": _AMOUNTS,
        "hard": _AMOUNTS,
        "sizeLimit": {_MIXED: True},
    }
}
WITHOUT_SCHEMA |= {"additionalProperties": WITHOUT_SCHEMA, "items": WITHOUT_SCHEMA}


@dataclass(frozen=True)
class Difference:
    """One place: `before` and `after` are its values, None where there is none. An entry of a list is
    written with its name where all have one of their own, as `env[HF_HOME]`, else with its number."""

    path: str
    before: Any
    after: Any


def differences(schema: Json, before: Any, after: Any) -> list[Difference]:
    """Where two objects differ. Defaults of the schema, empty fields that come or go, and other
    spellings of the same quantity are no difference; the order of a list is one, as KubeRay hashes it.
    """
    return list(_differences(schema, before, after, "", _same))


def literal_differences(before: Any, after: Any) -> list[Difference]:
    """Where two values differ that nobody fills in, as the arguments of an application."""
    return list(_differences({}, before, after, "", lambda _, one, other: equal(one, other)))


def _written(value: Json, key: Any) -> Any:
    found = value.get(key)
    return None if found is False and key in _PLAIN_FLAGS else found


def equal(one: Any, other: Any) -> bool:
    """The same value and, unlike in Python, of the same kind: true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other) or (
        one != one and other != other
    )  # not a number is the same as itself


def _differences(
    schema: Json, before: Any, after: Any, path: str, same: Same
) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        known, further = schema.get("properties") or {}, schema.get("additionalProperties")
        for key in dict.fromkeys([*after, *before]):
            inner = known.get(key) or (further if isinstance(further, dict) else {})
            here = f"{path}.{key}" if path else str(key)
            yield from _differences(inner, _written(before, key), _written(after, key), here, same)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(schema, before, after, path, same)
    elif not same(schema, before, after):
        yield Difference(path, before, after)


def _of_lists(
    schema: Json, before: list[Any], after: list[Any], path: str, same: Same
) -> Iterator[Difference]:
    inner = schema.get("items") or {}
    old, new = _by_name(before), _by_name(after)
    if old is not None and new is not None:
        kept = [name for name in new if name in old]
        for name in dict.fromkeys([*new, *old]):
            here = f"{path}[{name}]"
            yield from _differences(inner, old.get(name), new.get(name), here, same)
        if kept != [name for name in old if name in new]:
            yield Difference(f"{path} (order)", list(old), list(new))
    elif len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(inner, one, other, f"{path}[{i}]", same)
    else:
        yield Difference(path, before, after)


def _by_name(entries: list[Any]) -> dict[str, Any] | None:
    """A list of things with names, by name; None where it is none."""
    if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries):
        return None
    named = {entry["name"]: entry for entry in entries}
    return named if len(named) == len(entries) else None


def _same(schema: Json, before: Any, after: Any) -> bool:
    if is_empty(before) and is_empty(after):
        return True
    default = schema.get("default")
    if default is not None and is_empty(before) != is_empty(after):
        return equal(after if is_empty(before) else before, default)
    if schema.get(_MIXED) and _quantity(before) == _quantity(after):
        return True
    return equal(before, after)


def is_empty(value: Any) -> bool:
    """Nothing, also where it is written: a mapping or list of nothing counts as none."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    return value is None or value in ("", [])


def _quantity(value: Any) -> Any:
    """A quantity as a number, so that "1000m" is "1"; what is none as text."""
    try:
        return parse_quantity(value)
    except (ValueError, TypeError, ArithmeticError):
        return str(value)
