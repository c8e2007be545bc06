"""Values under construction: what was put where, with comments, and what there is to say about it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from raypd.lint.subject import error, warning
from raypd.report import Finding

Path = tuple[str | int, ...]


@dataclass
class Draft:
    """`values` hold only what the manifest asks for; `told` are the places of the manifest that a
    finding has spoken of, so that the comparison need not.
    """

    values: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    def put(self, path: str, value: Any, comment: str = "") -> None:
        """Writes a value at a dotted path of the chart's own keys."""
        *parents, last = path.split(".")
        node = self.values
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = copy.deepcopy(value)
        if comment:
            self.comments[path] = comment

    def get(self, path: str, default: Any = None) -> Any:
        node: Any = self.values
        for key in path.split("."):
            if not isinstance(node, dict) or key not in node:
                return default
            node = node[key]
        return node

    def lost(self, code: str, path: str, message: str, remedy: str) -> None:
        """Something of the manifest that the values cannot say."""
        self._add(error(code, path, message, remedy))

    def changed(self, code: str, path: str, message: str, remedy: str) -> None:
        """Something that the values say otherwise, on purpose."""
        self._add(warning(code, path, message, remedy))

    def _add(self, finding: Finding) -> None:
        self.told.add(finding.path)
        if (finding.code, finding.path) not in {(f.code, f.path) for f in self.findings}:
            self.findings.append(finding)  # a group that serves both roles is told of once

    def knows(self, path: str) -> bool:
        """A finding speaks of this place or of one that it lies in."""
        return any(path == told or path.startswith((f"{told}.", f"{told}[")) for told in self.told)


def merged(defaults: Any, over: Any) -> Any:
    """Values laid over the chart's defaults as Helm does it, a null kept as null."""
    if not (isinstance(defaults, dict) and isinstance(over, dict)):
        return copy.deepcopy(over)
    keys = [*defaults, *(key for key in over if key not in defaults)]
    return {
        key: merged(defaults.get(key), over[key]) if key in over else copy.deepcopy(defaults[key])
        for key in keys
    }


def pruned(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """What of the values differs from the defaults, in their order."""
    kept: dict[str, Any] = {}
    for key in [*(k for k in defaults if k in values), *(k for k in values if k not in defaults)]:
        value, default = values[key], defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if inside := pruned(value, default):
                kept[key] = inside
        elif value != default or (key in defaults and value is None):
            kept[key] = value
    return kept


def leaves(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of everything below that is no mapping and no list."""
    inside = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    if not isinstance(node, (dict, list)):
        yield path, node
    for key, value in list(inside):
        yield from leaves(value, (*path, key))


def plain(node: Any) -> Any:
    """A copy of which JSON can be made: keys are strings, and what JSON does not know is text."""
    if isinstance(node, dict):
        return {str(key): plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
    return node if isinstance(node, (str, int, float, bool, type(None))) else str(node)


def cut(node: Any, path: Path) -> None:
    """Takes out what lies at a path."""
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
