"""The room that an upgrade takes beside what runs, and the room that there is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from raypd.lint.subject import EFA, GPU, Subject, mapping, whole
from raypd.live.diagnosis.fit import amount
from raypd.live.install.facts import Facts
from raypd.live.install.placing import Wanted, left
from raypd.live.install.preconditions import wanted_pods
from raypd.live.install.room import Amounts, add
from raypd.upgrade.change import SIZES, Change

Json = dict[str, Any]

_NAMES = {
    GPU: "GPUs",
    EFA: "EFA interfaces",
    "cpu": "CPUs",
    "memory": "memory",
}


@dataclass(frozen=True)
class Room:
    """What an upgrade takes on top of the pods that run: by resource, for `pods` pods on nodes with the
    labels `nodes`. `free` is what such nodes have left, None where no cluster was asked."""

    pods: int = 0
    needed: Amounts = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    free: Amounts | None = None

    def sentence(self) -> str:
        """What is needed and what there is, for a person."""
        if not self.pods:
            return "Room: no pod more than there is."
        need = _said(self.needed)
        many = f"{self.pods} pod{'s' if self.pods > 1 else ''}"
        where = " and ".join(self.nodes) or "any label"
        has = (
            "what is free there is not checked without a cluster"
            if self.free is None
            else f"such nodes have {_said(self.free, self.needed)} left"
        )
        return f"Room: {need} for {many} more, on nodes with {where}; {has}."

    def as_json(self) -> Json:
        """By resource, amounts as numbers."""
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "needed": _numbers(self.needed),
            "free": None if self.free is None else _numbers(self.free),
        }


def room(change: Change, new: Subject, facts: Facts | None) -> Room:
    """The pods on top of those that run. `facts` None where no cluster was asked, or where its nodes
    may not be read."""
    more = _more(change, new)
    total: Amounts = {}
    for wanted in more:
        add(total, {name: one * wanted.count for name, one in wanted.request.items()})
    return Room(
        pods=sum(wanted.count for wanted in more),
        needed=total,
        nodes=list(dict.fromkeys(filter(None, map(_selector, more)))),
        free=left(more, facts.nodes, facts.pods) if facts is not None else None,
    )


def _more(change: Change, new: Subject) -> list[Wanted]:
    groups = wanted_pods(new)
    if change.new_cluster:
        return groups
    if change.renamed:
        return []  # they take the room of those that end
    found = []
    for group, wanted in zip(new.groups[1:], groups[1:], strict=True):
        if group.name in change.added_groups:
            found.append(wanted)
        sizes = {key: group.spec.get(key) for key in SIZES}
        before = {
            resize.key: resize.before for resize in change.resized if resize.group == group.name
        }
        more = _most(sizes) - _most(sizes | before)
        if before and more > 0:
            found.append(replace(wanted, count=more * whole(group.spec.get("numOfHosts"), 1)))
    return [wanted for wanted in found if wanted.count]


def _most(sizes: Json) -> int:
    """Replicas that a group may come to have."""
    return max(whole(count, 0) for count in sizes.values())


def _selector(wanted: Wanted) -> str:
    labels = mapping(wanted.pod.get("nodeSelector")).items()
    return ", ".join(f"{key}={value}" for key, value in labels)


def _said(amounts: Amounts, only: Amounts | None = None) -> str:
    shown = [name for name in (only or amounts) if name != "pods"]
    order = list(_NAMES)
    ordered = sorted(shown, key=lambda name: order.index(name) if name in _NAMES else len(order))
    return ", ".join(_amount(name, amounts.get(name, Decimal(0))) for name in ordered)


def _amount(name: str, value: Decimal) -> str:
    said = _NAMES.get(name, name)
    return f"{amount(name, value)} {said.removesuffix('s') if value == 1 else said}"


def _numbers(amounts: Amounts) -> Json:
    return {name: float(value) for name, value in amounts.items() if name != "pods"}
