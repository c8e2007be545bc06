"""What a CustomResourceDefinition does to an object: the fields that it drops, and the defaults that
it adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubernetes.utils import parse_quantity

Json = dict[str, Any]

_OPEN = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_MIXED = "x-kubernetes-int-or-string"
_OBJECT = ("apiVersion", "kind", "metadata")  # the API server knows these of every object


def schema_of(crd: Json, version: str) -> Json | None:
    """The schema of a version that is served ("v1"); None when there is none."""
    for entry in crd["spec"]["versions"]:
        if entry["name"] == version and entry["served"]:
            return (entry.get("schema") or {}).get("openAPIV3Schema")
    return None


def pruned(schema: Json, value: Any) -> list[str]:
    """Paths of the fields of an object that its schema does not know, so that the API server drops
    them without a word. Of a field that is dropped, what is inside is not listed."""
    return list(_pruned(schema, value, "", is_object=True))


def _pruned(schema: Json, value: Any, path: str, is_object: bool = False) -> Iterator[str]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _pruned(schema.get("items") or {}, item, f"{path}[{i}]")
        return
    if not isinstance(value, dict):
        return
    known = schema.get("properties") or {}
    further = schema.get("additionalProperties")
    for key, inner in value.items():
        if is_object and key in _OBJECT:
            continue
        here = f"{path}.{key}" if path else key
        if key in known:
            embedded = bool(known[key].get(_EMBEDDED))
            yield from _pruned(known[key], inner, here, is_object=embedded)
        elif isinstance(further, dict):
            yield from _pruned(further, inner, here)
        elif not further and not schema.get(_OPEN):
            yield here


def differences(schema: Json, wanted: Any, live: Any) -> list[str]:
    """Paths at which an object that was written (`wanted`) is not what the cluster has (`live`).

    What the API server and KubeRay do to an object on its way is no difference: defaults of the
    schema, empty fields that come or go, and other spellings of the same quantity.
    """
    return list(_differences(schema, wanted, live, ""))


def _differences(schema: Json, wanted: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(live, dict):
        known, further = schema.get("properties") or {}, schema.get("additionalProperties")
        for key in dict.fromkeys([*wanted, *live]):
            inner = known.get(key) or (further if isinstance(further, dict) else {})
            here = f"{path}.{key}" if path else key
            yield from _differences(inner, wanted.get(key), live.get(key), here)
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        for i, (one, other) in enumerate(zip(wanted, live, strict=True)):
            yield from _differences(schema.get("items") or {}, one, other, f"{path}[{i}]")
    elif not _same(schema, wanted, live):
        yield path


def _same(schema: Json, wanted: Any, live: Any) -> bool:
    if _is_empty(wanted) and _is_empty(live):
        return True
    default = schema.get("default")
    if _is_empty(wanted) and default is not None:
        return live == default
    if schema.get(_MIXED):
        return _quantity(wanted) == _quantity(live)
    return wanted == live


def _is_empty(value: Any) -> bool:
    """Nothing, also where it is written: a mapping or list of nothing counts as none."""
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value is None or value in ("", []) or value is False


def _quantity(value: Any) -> Any:
    """A quantity as a number, so that "1000m" is "1"; what is none as text."""
    try:
        return parse_quantity(value)
    except (ValueError, TypeError):
        return str(value)
