"""What a CustomResourceDefinition does to an object: the fields that it drops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_OPEN = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
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
