"""A value against a JSON Schema, as findings: the exact path, the reason, and what to write."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError

from raypd.report import Finding

_FEW = 50  # so many names are still read, and one of them may be the one that was meant

# Last digit of a finding's code by the schema keyword that was broken; 6 is everything else.
_UNKNOWN_KEY, _TYPE, _MISSING, _CHOICE, _BOUND, _FORM = "123456"
_DIGITS = {
    "additionalProperties": _UNKNOWN_KEY,
    "unevaluatedProperties": _UNKNOWN_KEY,
    "propertyNames": _UNKNOWN_KEY,
    "type": _TYPE,
    "required": _MISSING,
    "enum": _CHOICE,
    "const": _CHOICE,
    "minimum": _BOUND,
    "maximum": _BOUND,
    "exclusiveMinimum": _BOUND,
    "exclusiveMaximum": _BOUND,
    "multipleOf": _BOUND,
    "minLength": _BOUND,
    "maxLength": _BOUND,
    "minItems": _BOUND,
    "maxItems": _BOUND,
    "uniqueItems": _BOUND,
    "pattern": _BOUND,
    "format": _BOUND,
}


def schema_findings(schema: dict[str, Any], value: Any, family: str, at: str = "") -> list[Finding]:
    """Every place where `value` breaks `schema`, as errors in the order of the schema.

    `family` is the code without its last digit: with "RPD10" an unknown key is RPD101, a wrong type
    RPD102, a missing key RPD103, a value outside the choices RPD104, a broken bound or pattern
    RPD105, and a form that fits no alternative RPD106. `at` is the path of `value` itself.
    """
    validator = jsonschema.validators.validator_for(schema)(schema)
    return [
        finding
        for error in validator.iter_errors(value)
        for leaf in _leaves(error)
        for finding in _findings(leaf, family, at)
    ]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with each `$ref` replaced by the definition of its own that it points to.

    Keys beside a `$ref` win. That is where a value's description and default stand, which editors
    read there too, while a validator of draft-07 passes over them.
    """
    definitions = schema.get("definitions", {})

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        beside = {key: inline(value) for key, value in node.items() if key != "$ref"}
        if "$ref" not in node:
            return beside
        return inline(definitions[node["$ref"].removeprefix("#/definitions/")]) | beside

    return inline({key: value for key, value in schema.items() if key != "definitions"})


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """The errors a person can act on: behind `anyOf` and its like stands the nearest alternative."""
    if not error.context or error.validator == "not":
        yield error
        return
    if error.validator == "allOf":
        for part in error.context:
            yield from _leaves(part)
        return
    branches: dict[Any, list[ValidationError]] = {}
    for part in error.context:
        branches.setdefault(part.schema_path[0], []).append(part)
    # An alternative was meant when the value has its shape, so that only something inside is wrong.
    meant = [parts for parts in branches.values() if all(part.path for part in parts)]
    meant += [parts for parts in branches.values() if not any(map(_misfit, parts))]
    if not meant:
        yield error
        return
    for part in meant[0]:
        yield from _leaves(part)


def _misfit(error: ValidationError) -> bool:
    """The value as a whole is of the wrong kind, rather than something in it or about it."""
    return not error.path and error.validator in ("type", "enum", "const", "$ref")


def _findings(error: ValidationError, family: str, at: str) -> Iterator[Finding]:
    where = dotted(error.absolute_path, at)
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        for key in _unknown_keys(error):
            yield _unknown_key(key, where, error.schema, family + _UNKNOWN_KEY)
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield _missing_key(key, where, error.schema, family + _MISSING)
    else:
        yield Finding(
            code=family + _digit(error),
            severity="error",
            path=where,
            message=_reason(error),
            remedy=_expected(error),
        )


def _digit(error: ValidationError) -> str:
    if error.validator in ("anyOf", "oneOf") and error.context:
        broken = {part.validator for part in error.context}
        if broken == {"type"}:
            return _TYPE
        if broken <= {"type", "enum", "const"}:
            return _CHOICE
    return _DIGITS.get(str(error.validator), _FORM)


def _unknown_keys(error: ValidationError) -> list[str]:
    patterns = error.schema.get("patternProperties", {})
    known = error.schema.get("properties", {})
    unknown = [
        key
        for key in error.instance
        if key not in known and not any(re.search(pattern, key) for pattern in patterns)
    ]
    if error.validator == "unevaluatedProperties":
        # Keys may be known to a neighbouring subschema; the validator's message names the rest.
        unknown = [key for key in unknown if repr(key) in error.message] or unknown
    return unknown


def _unknown_key(key: str, where: str, schema: dict[str, Any], code: str) -> Finding:
    known = list(schema.get("properties", {}))
    return Finding(
        code=code,
        severity="error",
        path=dotted([key], where),
        message=f"`{key}` is no key of {f'`{where}`' if where else 'the top level'}.",
        remedy=nearest_key(key, known),
    )


def _missing_key(key: str, where: str, schema: dict[str, Any], code: str) -> Finding:
    wanted = schema.get("properties", {}).get(key, {})
    description = wanted.get("description", "") if isinstance(wanted, dict) else ""
    return Finding(
        code=code,
        severity="error",
        path=dotted([key], where),
        message="A value is required here and there is none.",
        remedy=" ".join(filter(None, [f"Set `{dotted([key], where)}`.", description])),
    )


def nearest_key(key: str, known: Iterable[str]) -> str:
    """The remedy for an unknown key: the key that was meant, else all there are if they are few."""
    known = list(known)
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(key).lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f"`{lowered[near[0]]}`, if that was meant; else take it out."
    if not known:
        return "Take it out: no keys are allowed here."
    if len(known) > _FEW:
        return f"Take it out: none of the {len(known)} names that are known here is like it."
    return f"One of {', '.join(f'`{name}`' for name in known)}, or take it out."


def dotted(path: Iterable[str | int], start: str = "") -> str:
    """`["env", 0, "name"]` as `env[0].name`; a key that is no plain word is quoted in brackets."""
    text = start
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][\w-]*", str(part)):
            text += f".{part}" if text else str(part)
        else:
            text += f'["{part}"]'
    return text


def _reason(error: ValidationError) -> str:
    value = shown(error.instance)
    wanted = error.validator_value
    match error.validator:
        case "type":
            return f"{value} is {_type_name(error.instance)}, and {types_in_words(wanted)} is expected."
        case "enum":
            return f"{value} is none of the values that are allowed."
        case "const":
            return f"{value} is not allowed here."
        case "pattern":
            return f"{value} does not match the pattern {wanted}."
        case "minimum" | "exclusiveMinimum":
            return f"{value} is too small."
        case "maximum" | "exclusiveMaximum":
            return f"{value} is too large."
        case "minLength" | "minItems":
            return f"{value} is too short."
        case "maxLength" | "maxItems":
            return f"{value} is too long."
        case "anyOf" | "oneOf":
            return f"{value} fits none of the forms that are allowed here."
        case "not" | None:
            return f"{value} is not allowed here."
    return f"{value}: {error.message[:300]}."


def _expected(error: ValidationError) -> str:
    """What to write, from the schema's bounds, examples, and description."""
    wanted = error.validator_value
    match error.validator:
        case "type":
            parts = [f"Write {types_in_words(wanted)}."]
        case "enum":
            parts = [f"One of {', '.join(map(shown, wanted))}."]
        case "const":
            parts = [f"Write {shown(wanted)}."]
        case "minimum":
            parts = [f"At least {shown(wanted)}."]
        case "exclusiveMinimum":
            parts = [f"More than {shown(wanted)}."]
        case "maximum":
            parts = [f"At most {shown(wanted)}."]
        case "exclusiveMaximum":
            parts = [f"Less than {shown(wanted)}."]
        case "minLength" | "minItems":
            parts = [f"A length of at least {wanted}."]
        case "maxLength" | "maxItems":
            parts = [f"A length of at most {wanted}."]
        case "anyOf" | "oneOf":
            parts = [f"Write {' or '.join(forms)}."] if (forms := _alternatives(error)) else []
        case _:
            parts = []
    if isinstance(error.schema, dict):
        if examples := error.schema.get("examples"):
            parts.append(f"For example {', '.join(shown(example) for example in examples[:2])}.")
        if description := error.schema.get("description"):
            parts.append(description)
    return " ".join(parts) or "A value that the schema allows."


def _alternatives(error: ValidationError) -> list[str]:
    """What each alternative asks for, in words."""
    words: list[str] = []
    for part in error.context:
        if part.validator == "type":
            words.append(types_in_words(part.validator_value))
        elif part.validator == "enum":
            words.append(f"one of {', '.join(map(shown, part.validator_value))}")
        elif part.validator == "const":
            words.append(shown(part.validator_value))
    return list(dict.fromkeys(words))


def is_within(path: str, outer: str) -> bool:
    """`path` is `outer` or lies inside it, both as `dotted` writes them."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


_TYPE_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def types_in_words(types: str | list[str]) -> str:
    """JSON Schema's names of types as a person says them: "a whole number or null"."""
    names = [types] if isinstance(types, str) else types
    return " or ".join(_TYPE_NAMES.get(name, name) for name in names)


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    kinds = (
        (dict, "object"),
        (list, "array"),
        (str, "string"),
        (int, "integer"),
        (float, "number"),
    )
    return next((_TYPE_NAMES[name] for kind, name in kinds if isinstance(value, kind)), "null")


def shown(value: Any) -> str:
    """A value as it would be written in YAML, cut to one readable line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{text if len(text) <= 80 else text[:77] + '...'}`"
