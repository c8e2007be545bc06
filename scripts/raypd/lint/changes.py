"""What changed between the contracts of two sets of versions, and what of it a render uses.

    used = uses(rendered, old) | uses(rendered, new)
    for change in changes(old, new, used): ...

A thing is named by its place and its key: `("EngineKwargs", "dtype")`. The place is the definition in
the contract that the key belongs to (`LLMConfig`, `AutoscalingConfig`, `KVTransferConfig` ...), or one
of the two below, which are no definitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from raypd.lint.contract import Contract, Part
from raypd.lint.subject import Subject, mapping, sequence
from raypd.render import Rendered
from raypd.schema import dotted, shown, types_in_words

ENVIRONMENT = "environment"
EXTRA_CONFIG = "kv_connector_extra_config"

Schema = dict[str, Any]
Kind = Literal[
    "added",
    "removed",
    "required",  # it could be left out before
    "deprecated",
    "retyped",  # a type, or any value where choices are now listed, is not taken any more
    "widened",  # more types are taken, or any value where choices were listed
    "choices removed",
    "choices added",
]


class Thing(NamedTuple):
    """A key by its place, or a variable with the place `environment`."""

    place: str
    key: str


class Use(NamedTuple):
    """Where a render uses a thing, and with which value."""

    path: str
    value: Any


@dataclass(frozen=True)
class Change:
    """One difference. `old` and `new` say what was and is taken, in words; `choices` are those that
    were added or removed.
    """

    part: Part
    thing: Thing
    kind: Kind
    old: str = ""
    new: str = ""
    choices: tuple[Any, ...] = ()

    def concerns(self, value: Any) -> bool:
        """The change can break a config that has this value, or makes it one to replace."""
        if self.kind == "choices removed":
            return any(item in self.choices for item in (sequence(value) or [value]))
        return self.kind in ("removed", "deprecated", "retyped")


@dataclass(frozen=True)
class _Fact:
    """What a contract says of one thing. `types` and `choices` are None where anything goes."""

    part: Part
    types: frozenset[str] | None = None
    choices: tuple[Any, ...] | None = None
    required: bool = False
    deprecated: bool = False


def changes(old: Contract, new: Contract, used: Collection[Thing] | None = None) -> list[Change]:
    """Every difference from `old` to `new`, by place and key; with `used`, only of those things.

    What cannot be told from names, types and choices (bounds, defaults, meaning) is not among them.
    """
    before, after = _facts(old), _facts(new)
    things = before.keys() | after.keys()
    return [
        change
        for thing in sorted(things if used is None else things & set(used))
        for change in _compared(thing, before.get(thing), after.get(thing))
    ]


def uses(rendered: Rendered, contract: Contract) -> dict[Thing, list[Use]]:
    """Everything of a contract that a render uses, unknown keys at known places included."""
    subject = Subject(rendered, contract)
    found: dict[Thing, list[Use]] = defaultdict(list)

    def walk(definitions: Schema, name: str, value: Any, path: str) -> None:
        _walk({"$ref": f"#/$defs/{name}"}, definitions, name, value, path, found)

    ray, vllm = contract.ray["$defs"], contract.vllm["$defs"]
    walk(ray, "ServeDeploySchema", rendered.serve_config, "spec.serveConfigV2")
    for path, application in subject.applications:
        builder = contract.builder_arguments(application.get("import_path"))
        if builder:
            walk(ray, builder, application.get("args"), f"{path}.args")
    for engine in subject.engines:
        walk(vllm, "EngineKwargs", engine.kwargs, f"{engine.path}.engine_kwargs")
        for key, value in engine.extra.items():
            path = f"{engine.transfer_path}.kv_connector_extra_config"
            found[Thing(EXTRA_CONFIG, str(key))].append(Use(dotted([str(key)], path), value))
    for path, variables in subject.environments:
        for name, value in variables.items():
            found[Thing(ENVIRONMENT, name)].append(Use(f"{path}[{name}]", value))
    return dict(found)


def _walk(
    schema: Schema,
    definitions: Schema,
    place: str,
    value: Any,
    path: str,
    found: dict[Thing, list[Use]],
) -> None:
    for form, where in _forms(schema, definitions, place):
        properties = form.get("properties")
        if properties is not None:
            for key, inner in mapping(value).items():
                below = dotted([str(key)], path)
                found[Thing(where, str(key))].append(Use(below, inner))
                known = mapping(properties.get(key))
                _walk(known, definitions, f"{where}.{key}", inner, below, found)
        for i, item in enumerate(sequence(value) if "items" in form else ()):
            _walk(form["items"], definitions, where, item, dotted([i], path), found)


def _forms(schema: Schema, definitions: Schema, place: str) -> Iterator[tuple[Schema, str]]:
    """Every alternative of a schema without references, and the place that its keys belong to."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        yield from _forms(definitions[name], definitions, name)
    elif "anyOf" in schema or "oneOf" in schema:
        for form in schema.get("anyOf", []) + schema.get("oneOf", []):
            yield from _forms(form, definitions, place)
    else:
        yield schema, place


def _facts(contract: Contract) -> dict[Thing, _Fact]:
    found: dict[Thing, _Fact] = {}
    for part, document in (("ray", contract.ray), ("vllm", contract.vllm)):
        definitions = document["$defs"]
        for place, key, schema, required in _properties(definitions):
            found[Thing(place, key)] = _fact(part, schema, definitions, required)
        for name in document["environment"]:
            deprecated = name in document.get("deprecated_environment", {})
            found[Thing(ENVIRONMENT, name)] = _Fact(part, deprecated=deprecated)
    for key in contract.vllm["nixl_extra_config"]:
        found[Thing(EXTRA_CONFIG, key)] = _Fact("vllm")

    def listed(place: str, key: str, part: Part, choices: Collection[str]) -> None:
        found[Thing(place, key)] = _Fact(part, choices=tuple(choices))

    listed("ServeApplicationSchema", "import_path", "ray", contract.ray["builders"])
    listed("KVTransferConfig", "kv_connector", "vllm", contract.vllm["kv_connectors"])
    devices = sorted({d for ds in contract.vllm["nixl_buffer_devices"].values() for d in ds})
    listed("KVTransferConfig", "kv_buffer_device", "vllm", devices)
    listed(EXTRA_CONFIG, "backends", "nixl", contract.nixl["backends"])
    return found


def _properties(definitions: Schema) -> Iterator[tuple[str, str, Schema, bool]]:
    """(place, key, schema, required) of every key, those of mappings described in place included."""
    for place, schema in definitions.items():
        for key, written in schema.get("properties", {}).items():
            yield place, key, written, key in schema.get("required", [])
            if "properties" in written:
                yield from _properties({f"{place}.{key}": written})


def _fact(part: Part, schema: Schema, definitions: Schema, required: bool) -> _Fact:
    lists: list[list[Any]] = []
    others: set[str | None] = set()  # None: anything
    for form, _ in _forms(schema, definitions, ""):
        if "enum" in form or "const" in form:
            lists.append(form.get("enum", [form.get("const")]))
        else:
            others.add(form.get("type"))
    choices = tuple(dict.fromkeys(choice for listed in lists for choice in listed))
    types = others | {_type_of(choice) for choice in choices}
    return _Fact(
        part,
        None if None in others else frozenset(types),
        choices if choices and others <= {"null"} else None,
        required,
        schema.get("deprecated", False),
    )


def _type_of(choice: Any) -> str:
    if choice is None:
        return "null"
    return {bool: "boolean", int: "integer", float: "number"}.get(type(choice), "string")


def _compared(thing: Thing, old: _Fact | None, new: _Fact | None) -> Iterator[Change]:
    if old is None or new is None:
        fact = old or new
        yield Change(fact.part, thing, "removed" if old else "added")
        return
    if new.deprecated and not old.deprecated:
        yield Change(new.part, thing, "deprecated")
    if new.required and not old.required:
        yield Change(new.part, thing, "required")
    if _narrower(old, new):
        yield Change(new.part, thing, "retyped", _words(old), _words(new))
    elif _narrower(new, old):
        yield Change(new.part, thing, "widened", _words(old), _words(new))
    if old.choices is not None and new.choices is not None:
        for kind, left, right in (
            ("choices removed", old.choices, new.choices),
            ("choices added", new.choices, old.choices),
        ):
            if only := tuple(choice for choice in left if choice not in right):
                yield Change(new.part, thing, kind, choices=only)


def _narrower(old: _Fact, new: _Fact) -> bool:
    """`new` does not take a kind of value that `old` takes; single choices are another matter."""
    if old.choices is None and new.choices is not None:
        return True
    if old.types is None or new.types is None:
        return False  # nothing is known of one of them
    taken = new.types | ({"integer"} if "number" in new.types else set())
    return not old.types <= taken


def _words(fact: _Fact) -> str:
    if fact.choices is not None:
        null = [None] if "null" in (fact.types or ()) and None not in fact.choices else []
        return f"one of {', '.join(map(shown, [*fact.choices, *null]))}"
    return types_in_words(sorted(fact.types)) if fact.types else "anything"
