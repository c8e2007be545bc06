"""What is wrong, before it becomes a finding: the same words for all pods that have it, and what it
keeps from working, so that consequences can be told from causes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from raypd.data import load
from raypd.live.snapshot import HEAD, Json, Snapshot, block_of, component_of
from raypd.report import Finding, Severity

ALL = frozenset({"*"})
_SHOWN = 3  # objects or consequences that are named one by one


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong at `where` ("pod inference/llm-head-x").

    `of` are the parts that have it and `stops` those that cannot work because of it, as "pod/NAME"
    or "role/COMPONENT"; ALL stops everything. `message` and `remedy` do not name the object, so that
    equal troubles of several can be told once; {pod} in a remedy stands for its name, {role} for
    its block of the values.
    """

    code: str
    where: str
    of: frozenset[str]
    stops: frozenset[str]
    message: str
    remedy: str
    severity: Severity = "error"
    pod: str = ""
    role: str = ""
    follows: tuple[str, ...] = field(default=(), compare=False)


Check = Callable[[Snapshot], Iterator[Trouble]]


def of_pod(
    code: str, pod: Json, message: str, remedy: str, severity: Severity = "error"
) -> Trouble:
    """A trouble of one pod. Nothing works without the head."""
    name, component = pod["metadata"]["name"], component_of(pod)
    own = frozenset({f"pod/{name}"})
    stops = ALL if component == HEAD else own | {f"role/{component}"}
    return Trouble(
        code,
        name_of("pod", pod),
        own,
        stops,
        message,
        remedy,
        severity,
        pod=name,
        role=block_of(pod),
    )


def of_roles(
    code: str,
    where: str,
    roles: Collection[str],
    message: str,
    remedy: str,
    severity: Severity = "error",
) -> Trouble:
    """A trouble that any pod of these components may be the cause of."""
    parts = frozenset(f"role/{role}" for role in roles)
    role = next(iter(roles)) if len(parts) == 1 else ""
    return Trouble(code, where, parts, parts, message, remedy, severity, role=role)


def of_release(
    code: str, where: str, message: str, remedy: str, severity: Severity = "error"
) -> Trouble:
    """A trouble that keeps the whole release from working."""
    return Trouble(code, where, frozenset(), ALL, message, remedy, severity)


def name_of(kind: str, item: Json) -> str:
    """An object as findings name it: "pod inference/llm-head-x"."""
    metadata = item["metadata"]
    return f"{kind} {metadata['namespace']}/{metadata['name']}"


def causes(stages: Iterable[Iterable[Check]], snapshot: Snapshot) -> list[Trouble]:
    """The troubles of all checks without those that follow from an earlier stage's.

    Stages are in the order in which things start. A trouble follows when an earlier one stops a part
    that has it; it is then named in the earlier one.
    """
    found: list[Trouble] = []
    for stage in stages:
        before = [trouble for trouble in found if trouble.severity == "error"]
        for trouble in (trouble for check in stage for trouble in check(snapshot)):
            cause = _cause(trouble, before)
            if cause is None:
                found.append(trouble)
                continue
            # `before` and `found` hold the same objects until one learns of a consequence.
            told = replace(cause, follows=(*cause.follows, _brief(trouble)))
            found[found.index(cause)] = before[before.index(cause)] = told
    return found


def findings(troubles: list[Trouble]) -> list[Finding]:
    """One finding for equal troubles of several objects; errors come before warnings."""
    alike: dict[tuple[str, ...], list[Trouble]] = {}
    for trouble in sorted(troubles, key=lambda t: t.severity):
        key = (trouble.code, trouble.severity, trouble.message, trouble.remedy)
        alike.setdefault(key, []).append(trouble)
    return [_finding(same) for same in alike.values()]


def several(names: Iterable[str], between: str = ", ") -> str:
    """Names for a sentence, the first few of them: "a, b, c and 4 more"."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _SHOWN} more" if len(unique) > _SHOWN else ""
    return between.join(unique[:_SHOWN]) + more


def _cause(trouble: Trouble, before: list[Trouble]) -> Trouble | None:
    for earlier in before:
        if trouble.of and (earlier.stops == ALL or earlier.stops & trouble.of):
            return earlier
    return None


def _brief(trouble: Trouble) -> str:
    (title,) = (rule["title"] for rule in load("rules.yaml") if rule["code"] == trouble.code)
    return f"{trouble.where} ({title[0].lower()}{title[1:]})"


def _finding(same: list[Trouble]) -> Finding:
    first = same[0]
    message = first.message
    if follows := [brief for trouble in same for brief in trouble.follows]:
        message = f"{message} What follows from it: {several(follows)}."
    roles = {trouble.role for trouble in same}
    role = roles.pop() if len(roles) == 1 else ""
    remedy = first.remedy.replace("{role}", role or "<role>").replace("{pod}", first.pod)
    return Finding(
        code=first.code,
        severity=first.severity,
        path=several(trouble.where for trouble in same),
        message=message,
        remedy=remedy,
    )
