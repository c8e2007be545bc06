"""What Helm does with the objects of a release: made, changed, deleted, kept, or refused by the API server
because a field of them cannot be changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from kubernetes.utils import parse_quantity

from raypd.data import load
from raypd.lint.subject import mapping, sequence
from raypd.render import is_kept
from raypd.upgrade.difference import WITHOUT_SCHEMA, Difference, differences

Json = dict[str, Any]
Fate = Literal["created", "changed", "deleted", "kept"]
Identity = tuple[str, str, str, str]

_HOOK = "helm.sh/hook"
_STORAGE = "spec.resources.requests.storage"
# What the server writes, for manifests that were read from one.
_OF_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


@dataclass(frozen=True)
class ObjectChange:
    """One object that differs: `kind` and `name`, what Helm does with it, the places, and those among
    them that the API server refuses. "kept" is out of the release and stays in the cluster."""

    kind: str
    name: str
    fate: Fate
    places: list[Difference] = field(default_factory=list)
    refused: list[Difference] = field(default_factory=list)

    @property
    def title(self) -> str:
        """As kubectl takes it: Kind/name."""
        return f"{self.kind}/{self.name}"


def compare(before: list[Json], after: list[Json]) -> list[ObjectChange]:
    """The manifests of two releases. Of a RayService only the metadata counts here; hooks are left out,
    because Helm makes them when it runs them."""
    old, new = _by_identity(before), _by_identity(after)
    found = []
    for identity in {**new, **old}:
        one, other = old.get(identity), new.get(identity)
        _, kind, _, name = identity
        if one is None or other is None:
            gone: Fate = "kept" if one is not None and is_kept(one) else "deleted"
            found.append(ObjectChange(kind, name, "created" if one is None else gone))
            continue
        places = differences(WITHOUT_SCHEMA, _content(one), _content(other))
        if places:
            refused = [place for place in places if _is_refused(kind, place)]
            found.append(ObjectChange(kind, name, "changed", places, refused))
    return found


def hooks(manifests: list[Json]) -> list[str]:
    """Titles of the hooks among manifests."""
    return [
        f"{m.get('kind')}/{mapping(m.get('metadata')).get('name')}"
        for m in manifests
        if _is_hook(m)
    ]


def read_at_start(manifests: list[Json]) -> set[tuple[str, str]]:
    """(kind, name) of each Secret and ConfigMap that a RayService's containers read as variables, so
    that a running one never sees another content."""
    clusters = [
        mapping(mapping(m.get("spec")).get("rayClusterConfig"))
        for m in manifests
        if m.get("kind") == "RayService"
    ]
    return set(_sources(clusters))


def _sources(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _sources(item)
    elif isinstance(value, dict):
        for key, kind in (
            *(("secretKeyRef", "Secret"), ("secretRef", "Secret")),
            *(("configMapKeyRef", "ConfigMap"), ("configMapRef", "ConfigMap")),
        ):
            if isinstance(value.get(key), dict):
                yield kind, str(value[key].get("name"))
        for inner in value.values():
            yield from _sources(inner)


def _by_identity(manifests: list[Json]) -> dict[Identity, Json]:
    found = {}
    for manifest in manifests:
        metadata = mapping(manifest.get("metadata"))
        group = str(manifest.get("apiVersion")).rpartition("/")[0]
        identity = (
            *(group, str(manifest.get("kind"))),
            *(str(metadata.get("namespace") or ""), str(metadata.get("name"))),
        )
        if not _is_hook(manifest):
            found[identity] = manifest
    return found


def _content(manifest: Json) -> Json:
    """The object without what the server writes, and a RayService's spec, which is judged elsewhere."""
    left_out = ("status", "spec") if manifest.get("kind") == "RayService" else ("status",)
    metadata = mapping(manifest.get("metadata"))
    kept = {key: value for key, value in metadata.items() if key not in _OF_SERVER}
    content = {key: value for key, value in manifest.items() if key not in left_out}
    return {**content, "metadata": kept}


def _is_refused(kind: str, place: Difference) -> bool:
    rule = mapping(load("immutable.yaml").get(kind))
    within = any(_is_below(place.path, path) for path in sequence(rule.get("fields")))
    excepted = any(_is_below(place.path, path) for path in sequence(rule.get("except")))
    if kind == "PersistentVolumeClaim" and place.path == _STORAGE:
        return _shrinks(place)
    return within and not excepted


def _is_below(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}[", f"{whole} "))


def _shrinks(place: Difference) -> bool:
    try:
        return bool(parse_quantity(place.after) < parse_quantity(place.before))
    except (ValueError, TypeError, ArithmeticError):
        return True  # no size at all


def _is_hook(manifest: Json) -> bool:
    return _HOOK in mapping(mapping(manifest.get("metadata")).get("annotations"))
