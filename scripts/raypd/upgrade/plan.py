"""What an upgrade does, worked out from both sides."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from raypd.lint import changes as contracts
from raypd.lint.changes import changes, uses
from raypd.lint.subject import Subject, mapping
from raypd.live.install.facts import Facts
from raypd.live.install.preconditions import Case, missing_room, room_is_seen
from raypd.render import Rendered
from raypd.report import Finding
from raypd.upgrade import findings, objects
from raypd.upgrade.change import INCREMENTAL, Change, change, describe, strategy
from raypd.upgrade.findings import Upgrade
from raypd.upgrade.roles import alone
from raypd.upgrade.room import Room, room
from raypd.upgrade.rows import NONE, Row, of_change, of_objects

Json = dict[str, Any]

_OFFLINE = [
    "how many GPUs are free, and whether the pods find nodes: only the cluster knows (leave out --from "
    "and --from-manifest)",
    "changes of pods that an earlier upgrade has left waiting: only the cluster knows",
]
_NEVER = [
    "how long an engine takes to load: the times that `raypd up` shows; docs/faults.md has measured ones",
    "whether the new arguments are right: raypd lint",
]


@dataclass
class Plan:
    """Everything that is printed. `kind` is "nothing", "ignored" (all of it, for now), "in place", "new
    engines in place", "second cluster" or "replaced"; `versions` are (what, before, after)."""

    title: str
    kind: str = "nothing"
    rows: list[Row] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    requests: str = ""
    room: Room = field(default_factory=Room)
    versions: list[tuple[str, str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when no request is lost, nothing is ignored and there is room; unlike for other verbs a
        warning is 1 as well, because these are what a plan is asked for."""
        return int(bool(self.findings))

    def as_json(self) -> Json:
        """One object for programs."""
        return {
            "title": self.title,
            "changes": [asdict(row) for row in self.rows],
            "verdict": {
                "kind": self.kind,
                "sentences": self.sentences,
                "requests": self.requests,
                "interrupted": any(row.requests == NONE for row in self.rows),
            },
            "room": self.room.as_json(),
            "versions": [
                dict(zip(("what", "before", "after"), v, strict=True)) for v in self.versions
            ],
            "findings": [finding.model_dump() for finding in self.findings],
            "checked": self.checked,
            "not_checked": self.not_checked,
        }


def make(title: str, before: Rendered, after: Rendered, case: Case | None = None) -> Plan:
    """The plan from one side to the other. `case` is the new side on a cluster, whose RayService and
    RayCluster then stand for what runs; without one both sides are renders."""
    facts = case.facts if case else None
    old, new = Subject.of(before), Subject.of(after)
    found = _change(before, after, facts)
    lonely = {name: alone(old, new, name) for name in (a.name for a in found.applications)}
    seen = facts if facts is not None and room_is_seen(facts) else None
    upgrade = Upgrade(
        old=old,
        new=new,
        change=found,
        objects=objects.compare(before.manifests, after.manifests),
        alone=lonely,
        shortages=missing_room(case) if case and found.makes_pods else [],
        nodes_come=facts is not None and facts.autoscaled,
        read_at_start=frozenset(objects.read_at_start(after.manifests)),
    )
    live = (facts.rayservice if facts else None) or before.rayservice
    rows = of_change(found, after.rayservice, live, lonely) + of_objects(upgrade.objects)
    plan = Plan(
        title=title,
        kind=_kind(upgrade, rows),
        rows=rows,
        sentences=describe(found, after.rayservice),
        requests=_requests(upgrade),
        room=room(found, new, seen),
        versions=_versions(old, new),
        findings=findings.check(upgrade),
        checked=[
            "what KubeRay 1.6 and Ray Serve 2.58 do with each change",
            "what Helm does with objects",
        ],
        not_checked=[*([] if facts else _OFFLINE), *_NEVER],
    )
    _say_unseen(plan, facts)
    if hooks := objects.hooks(after.manifests):
        plan.not_checked.append(f"hooks, which Helm makes when it runs them: {', '.join(hooks)}")
    return plan


def _change(before: Rendered, after: Rendered, facts: Facts | None) -> Change:
    if facts is None or facts.rayservice is None:
        return change(None, after.rayservice, before.rayservice)
    if facts.raycluster is None:  # KubeRay has not made it yet, or may not be asked
        return change(None, after.rayservice, facts.rayservice)
    return change(facts.schema, after.rayservice, facts.rayservice, facts.raycluster)


def _say_unseen(plan: Plan, facts: Facts | None) -> None:
    if facts is None:
        return
    plan.not_checked += [f"{what}: {why}" for what, why in facts.unseen.items()]
    if facts.raycluster is None:
        plan.not_checked.append("what really runs: there is no RayCluster to read")
    if room_is_seen(facts):
        plan.checked.append("room on the nodes")


def _kind(upgrade: Upgrade, rows: list[Row]) -> str:
    found = upgrade.change
    if found.renamed:
        return "replaced"
    if found.new_cluster:
        return "second cluster"
    if any(a.fate in ("rebuilt", "restarted") for a in found.applications):
        return "new engines in place"
    if not rows:
        return "nothing"
    return "ignored" if all(row.is_ignored for row in rows) else "in place"


def _requests(upgrade: Upgrade) -> str:
    """Whether requests are lost, and for how long."""
    found = upgrade.change
    if found.renamed:
        return (
            "Requests: none is answered from the end of the old engines until new ones have loaded; those "
            "under way are lost."
        )
    if found.new_cluster:
        spec = mapping(upgrade.rayservice.get("spec"))
        # KubeRay's own delay (rayservice_controller.go, RayClusterDeletionDelayDuration).
        delay = spec.get("rayClusterDeletionDelaySeconds", 60)
        gate = (
            " This strategy takes KubeRay's feature gate RayServiceIncrementalUpgrade; without it "
            "nothing happens."
            if strategy(upgrade.rayservice) == INCREMENTAL
            else ""
        )
        return (
            f"Requests: go on; answers that take longer than {delay} s after the traffic has moved are "
            f"cut.{gate}"
        )
    if upgrade.interrupted:
        lonely = [name for names in upgrade.interrupted.values() for name in names]
        return (
            f"Requests: none is answered while {', '.join(lonely)} "
            f"{'has' if len(lonely) == 1 else 'have'} no replica: as long as one takes to stop and the "
            "next to load (`raypd up` shows it as engines started; docs/faults.md has measured times)."
        )
    if any(a.fate in ("rebuilt", "restarted") for a in found.applications):
        return "Requests: go on, on fewer engines until each has been replaced."
    return "Requests: go on."


def _versions(old: Subject, new: Subject) -> list[tuple[str, str, str]]:
    """Ray's version, the images, and what the new versions do otherwise with an argument or variable
    that either side uses: what it is about, before and after."""
    found = [("Ray", str(old.cluster.get("rayVersion")), str(new.cluster.get("rayVersion")))]
    before = {group.name: group for group in old.groups}
    images: dict[tuple[str, str], list[str]] = {}
    for group in new.groups:
        if group.name in before:
            one, other = (str(g.ray_container.get("image")) for g in (before[group.name], group))
            images.setdefault((one, other), []).append(group.name)
    found += [(f"image of {', '.join(names)}", *pair) for pair, names in images.items()]
    found += [
        (f"{change.thing.key} ({change.thing.place})", *_before_and_after(change))
        for change in changes(
            old.contract,
            new.contract,
            uses(old.rendered, old.contract) | uses(new.rendered, new.contract),
        )
    ]
    return [version for version in found if version[1] != version[2]]


def _before_and_after(change: contracts.Change) -> tuple[str, str]:
    match change.kind:
        case "retyped" | "widened":
            return change.old, change.new
        case "choices removed":
            return f"takes {', '.join(map(str, change.choices))}", "does not"
        case "choices added":
            return "", f"takes {', '.join(map(str, change.choices))} as well"
        case "added":
            return "not known", "known"
        case "removed":
            return "known", "not known"
    return "", change.kind
