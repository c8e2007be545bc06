"""The table of an upgrade plan: each change with who acts on it, what happens, and what requests see. No
secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from raypd.lint.secrets import hide, hide_all
from raypd.lint.subject import SERVE_CONFIG, mapping, sequence
from raypd.upgrade.change import Change, Resize
from raypd.upgrade.difference import Difference, differences
from raypd.upgrade.objects import ObjectChange
from raypd.upgrade.serve import CODE

Json = dict[str, Any]

GO_ON = "go on"
FEWER = "go on, with fewer engines"
NONE = "none until the new one has loaded"
_SHOWN = 60  # characters of a value

# A part of the cluster's spec, and the container of Ray, whose name differs between head and workers.
_GROUP = re.compile(r"(headGroupSpec|workerGroupSpecs\[(?P<index>\d+)\])\.(?P<rest>.+)")
_RAY = re.compile(r"containers\[ray-(head|worker)\]")


@dataclass(frozen=True)
class Row:
    """One change: `where` it is, the values as they may be shown (None for none), `actor`, `effect`, and
    what `requests` see."""

    where: str
    before: Any
    after: Any
    actor: str
    effect: str
    requests: str = GO_ON

    @property
    def text(self) -> str:
        """The place, and below it: old -> new."""
        return f"{self.where}:\n  {shown(self.before)} -> {shown(self.after)}"

    @property
    def is_ignored(self) -> bool:
        """It has no effect yet."""
        return self.effect.startswith("ignored")


def of_change(
    change: Change, rayservice: Json, before: Json, alone: dict[str, list[str]]
) -> list[Row]:
    """The rows of what runs; `before` is the older RayService, and `alone` are by application the
    deployments that nobody stands in for."""
    return [
        *_pods(change, rayservice),
        *_applications(change, alone),
        *_resized(change),
        *(_row(one, *_TOLERATIONS) for one in _grouped(change.tolerations, rayservice)),
        *_service(change),
        *_settings(rayservice, before),
    ]


def of_objects(objects: list[ObjectChange]) -> list[Row]:
    """The rows of what Helm does; a change that many objects share is one row."""
    rows: dict[tuple[str, str, str, str, str], list[tuple[ObjectChange, Difference]]] = {}
    for one in objects:
        for place in one.places or [Difference("", None, None)]:
            effect = (
                _EFFECTS[one.fate] if place not in one.refused else "refused: cannot be changed"
            )
            key = (place.path, repr(place.before), repr(place.after), effect, one.fate)
            rows.setdefault(key, []).append((one, place))
    return [_object_row(key[3], found) for key, found in rows.items()]


_EFFECTS = {
    "created": "made",
    "changed": "changed",
    "deleted": "deleted",
    "kept": "stays in the cluster, and belongs to no release any more",
}


def shown(value: Any) -> str:
    """A value on one short line."""
    if value is None:
        return "none"
    if isinstance(value, str) and "\n" in value.strip():
        return f"({len(value.splitlines())} lines)"
    text = value if isinstance(value, str) else _compact(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _compact(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_compact(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_compact, value)) + "]"
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)


def _row(place: Difference, actor: str, effect: str, requests: str = GO_ON) -> Row:
    name = _name(place.path)
    before, after = hide(place.before, name), hide(place.after, name)
    return Row(place.path, before, after, actor, effect, requests)


_TOLERATIONS = ("KubeRay", "only for the next cluster's pods")
_NEW = ("KubeRay", "a second cluster, then the traffic moves")
_KEPT = ("nobody (strategy None)", "ignored until the cluster is replaced")
_RENAMED = ("Helm", "the RayService is deleted, and another made")


def _pods(change: Change, rayservice: Json) -> Iterator[Row]:
    """Changes of pods, those that several groups share in one row."""
    if change.renamed:
        after = mapping(rayservice.get("metadata")).get("name")
        yield Row("RayService", change.renamed, after, *_RENAMED, NONE)
    acts = _RENAMED if change.renamed else _NEW if change.replaces else _KEPT
    for place in _grouped(change.pods, rayservice):
        yield _row(place, *acts, NONE if change.renamed else GO_ON)
    for group in change.added_groups:
        yield Row(f"group {group}", None, "(a group)", "KubeRay", "added to the running cluster")


def _grouped(places: list[Difference], rayservice: Json) -> Iterator[Difference]:
    config = mapping(mapping(rayservice.get("spec")).get("rayClusterConfig"))
    names = [
        str(mapping(group).get("groupName")) for group in sequence(config.get("workerGroupSpecs"))
    ]
    shared: dict[tuple[str, str, str], list[str]] = {}
    first: dict[tuple[str, str, str], Difference] = {}
    for place in places:
        match = _GROUP.fullmatch(place.path)
        if match is None:
            group, rest = "cluster", place.path
        else:
            index = match["index"]
            known = index is not None and int(index) < len(names)
            group = names[int(index)] if known else match[1].replace("headGroupSpec", "head")
            rest = _RAY.sub("containers[ray]", match["rest"])
        key = (rest, repr(place.before), repr(place.after))
        shared.setdefault(key, []).append(group)
        first.setdefault(key, Difference(rest, place.before, place.after))
    for key, place in first.items():
        yield Difference(f"{', '.join(shared[key])}: {place.path}", place.before, place.after)


def _applications(change: Change, alone: dict[str, list[str]]) -> Iterator[Row]:
    for application in change.applications:
        where = f"{SERVE_CONFIG} {application.name}"
        waits = {place.path for place in application.ignored}
        requests = NONE if alone.get(application.name) else FEWER
        if application.fate in ("new", "gone"):
            new = application.fate == "new"
            values = (None, "(an application)") if new else ("(an application)", None)
            effect = "engines are started" if new else "engines end"
            yield Row(where, *values, "Ray Serve", effect, GO_ON if new else "none any more")
        # What would not have built it anew by itself is taken over on the way.
        causes = [p for p in application.changes if p.path.partition(".")[0] in CODE]
        causes = causes or application.changes
        for place in application.changes:
            named = Difference(f"{where}: {place.path}", place.before, place.after)
            if change.new_cluster or change.renamed:
                yield _row(named, *(_RENAMED if change.renamed else _NEW))
            elif any(place.path == path or place.path.startswith(f"{path}.") for path in waits):
                yield _row(named, "nobody", "ignored until the application is built anew")
            elif application.fate == "rebuilt" and place in causes:
                yield _row(named, "Ray Serve", "all engines are replaced in place", requests)
            elif application.fate == "restarted":
                yield _row(named, "Ray Serve", "its engines are replaced in place", requests)
            else:
                yield _row(named, "Ray Serve", "taken over in place")
    for place in change.of_start:
        named = Difference(f"{SERVE_CONFIG}: {place.path}", place.before, place.after)
        if change.new_cluster or change.renamed:
            yield _row(named, *(_RENAMED if change.renamed else _NEW))
        else:
            yield _row(named, "nobody", "ignored until the cluster is replaced")


def _resized(change: Change) -> Iterator[Row]:
    if change.new_cluster or change.renamed:
        return
    by_group: dict[str, list[Resize]] = {}
    for resize in change.resized:
        by_group.setdefault(resize.group, []).append(resize)
    for group, resizes in by_group.items():
        for resize in _distinct(resizes):
            yield Row(
                f"group {group}: {resize.key}",
                resize.before,
                resize.after,
                "raypd up; KubeRay does not",
                "pods are made or removed, the others stay",
            )


def _distinct(resizes: list[Resize]) -> list[Resize]:
    """One for all three numbers where they change alike."""
    pairs = {repr((resize.before, resize.after)) for resize in resizes}
    if len(resizes) < 2 or len(pairs) > 1:
        return resizes
    keys = ", ".join(resize.key for resize in resizes)
    return [Resize(resizes[0].group, keys, resizes[0].before, resizes[0].after)]


def _service(change: Change) -> Iterator[Row]:
    for place in change.service:
        if place in change.service_kept:
            yield _row(place, "nobody", "ignored until the Service is made anew")
        else:
            yield _row(place, *(_RENAMED if change.renamed else _NEW))


def _settings(rayservice: Json, before: Json) -> Iterator[Row]:
    """Fields of the RayService itself, which KubeRay reads each time."""
    judged = ("rayClusterConfig", "serveConfigV2", "serveService")
    one, other = (
        {k: v for k, v in mapping(item.get("spec")).items() if k not in judged}
        for item in (before, rayservice)
    )
    for place in differences({}, one, other):
        yield _row(place, "KubeRay", "read when it acts; nothing restarts")


def _object_row(effect: str, found: list[tuple[ObjectChange, Difference]]) -> Row:
    one, place = found[0]
    many = len(found)
    title = one.title if many == 1 else f"{many} objects ({', '.join(_kinds(found))})"
    if not place.path:
        there = one.fate == "created"
        return Row(title, None if there else "(there)", "(made)" if there else None, "Helm", effect)
    before, after = place.before, place.after
    if one.kind == "Secret" and not place.path.startswith(("metadata.labels", "type")):
        before, after = hide_all(before), hide_all(after)
    return _row(Difference(f"{title}: {place.path}", before, after), "Helm", effect)


def _kinds(found: Iterable[tuple[ObjectChange, Difference]]) -> list[str]:
    return sorted({one.kind for one, _ in found})


def _name(path: str) -> str:
    """The name that a value at a path goes by: of an environment entry its own."""
    named = re.search(r"\[([^\]]+)\]\.value$", path)
    return named[1] if named else path.rpartition(".")[2]
