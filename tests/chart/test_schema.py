"""Properties of the values schema: what it lets through renders, what it forbids is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chart.rendering import CHART, EVERYTHING, Refused
from raypd import yaml_text
from raypd.schema import resolved

WRITTEN = json.loads((CHART / "values.schema.json").read_text())
SCHEMA = resolved(WRITTEN)
VALIDATOR = jsonschema.Draft7Validator(WRITTEN)
DEFAULTS = yaml_text.load((CHART / "values.yaml").read_text())
# One render takes a tenth of a second, so the number of examples is what the time allows.
SLOW = settings(
    max_examples=min(30, settings.default.max_examples),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Maps and lists that hold pieces of a pod: their inside is Kubernetes' business, not the schema's.
PODS_OWN = {
    "volumes", "volumeMounts", "initContainers", "sidecars", "extraObjects", "affinity",
    "clients", "prometheus", "operator", "global", "enabled",
}  # fmt: skip


def leaves(
    schema: dict[str, Any], path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], dict]]:
    """Every value of the schema that is not a block, with its path."""
    if "properties" not in schema or "affinity" in path:
        return [(path, schema)]
    return [
        found
        for key, child in schema["properties"].items()
        if key not in ("global", "enabled") or path
        for found in leaves(child, (*path, key))
    ]


def blocks(schema: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every block, the root included."""
    children = schema.get("properties", {}).items()
    return [path, *(b for k, c in children if "properties" in c for b in blocks(c, (*path, k)))]


LEAVES = leaves(SCHEMA)
BLOCKS = blocks(SCHEMA)


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of values with one more value in it."""
    values = copy.deepcopy(values)
    place = values
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return values


def accepted_values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of one leaf, each accepted by its schema, among them the extremes and null."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    options: list[st.SearchStrategy[Any]] = []
    if "null" in kinds:
        options.append(st.none())
    if "enum" in schema:
        options.append(st.sampled_from([v for v in schema["enum"] if v is not None]))
    elif "boolean" in kinds:
        options.append(st.booleans())
    elif "integer" in kinds:
        low, high = schema["minimum"], schema["maximum"]
        options.append(st.sampled_from([low, high]) | st.integers(low, high))
        options += [st.just(schema["default"])] * ("string" in kinds)
    elif "number" in kinds:
        options.append(st.floats(0.01, schema.get("maximum", 1000), allow_nan=False))
    elif "string" in kinds:
        options.append(st.from_regex(schema["pattern"], fullmatch=True).filter(str.isascii))
    elif "examples" in schema:
        options.append(st.sampled_from(schema["examples"]))
    return st.one_of(options).filter(lambda v: jsonschema.Draft7Validator(schema).is_valid(v))


@st.composite
def some_values(draw: st.DrawFn) -> dict[str, Any]:
    """A handful of values anywhere in the schema, over everything turned on or nothing."""
    values = draw(st.sampled_from([{}, EVERYTHING]))
    usable = [
        (p, s) for p, s in LEAVES if not PODS_OWN & set(p) and ("examples" in s or _drawable(s))
    ]
    for path, schema in draw(st.lists(st.sampled_from(usable), min_size=1, max_size=6)):
        values = put(values, path, draw(accepted_values(schema)))
    return values


def _drawable(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return (
        "enum" in schema
        or "pattern" in schema
        or bool({"boolean", "integer", "number"} & set(kinds))
    )


def test_what_the_schema_accepts_renders_or_is_refused_by_a_named_rule(render, conforms):
    """Never a nil pointer, never a template error, never a manifest that a schema refuses."""
    rendered = []

    @SLOW
    @given(values=some_values())
    def renders_or_is_refused(values: dict[str, Any]) -> None:
        try:
            text = render.text(values)
        except Refused as refused:
            message = str(refused)
            assert "The values cannot work" in message, message
            assert "[RPD1" in message and "Instead: " in message, message
            return
        assert "e+" not in text.split("kind: RayService")[1].split("# Source")[0]
        rendered.append(text)

    renders_or_is_refused()
    conforms("\n".join(rendered))  # together, because reading the schemas takes the most time


@SLOW
@given(data=st.data())
def test_one_forbidden_thing_is_always_refused(render, data):
    """An unknown key in any block, or a key of a wrong type or out of its bounds."""
    values = data.draw(some_values())
    if data.draw(st.booleans()):
        path: tuple[str, ...] = (*data.draw(st.sampled_from(BLOCKS)), "replicaz")
        wrong: Any = 1
    else:
        path, schema = data.draw(st.sampled_from(LEAVES))
        wrong = data.draw(st.sampled_from(forbidden(schema)))
    with pytest.raises(Refused, match=path[-1]) as refused:
        render.text(put(values, path, wrong))
    assert "nil pointer" not in str(refused.value)


def forbidden(schema: dict[str, Any]) -> list[Any]:
    """Values that the schema of one leaf forbids: a wrong type, and one beyond each bound."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    text = "\t no such thing \n"
    wrong: list[Any] = [text if "string" not in kinds else True if "integer" in kinds else 7]
    if "enum" in schema or "pattern" in schema:
        wrong.append(text)
    if "minimum" in schema:
        wrong.append(schema["minimum"] - 1)
    if "maximum" in schema:
        wrong.append(schema["maximum"] + 1)
    return wrong


@pytest.mark.parametrize(("path", "schema"), LEAVES, ids=[".".join(p) for p, _ in LEAVES])
def test_every_key_refuses_what_is_forbidden_and_takes_its_examples(path, schema):
    for value in schema.get("examples", []):
        assert accepts(path, value), value
    for value in forbidden(schema):
        assert not accepts(path, value), value
    assert accepts(path, None) is (path != ("model", "maxModelLen"))


@pytest.mark.parametrize("path", BLOCKS, ids=lambda p: ".".join(p) or "root")
def test_every_block_refuses_an_unknown_key(path):
    assert not accepts((*path, "replicaz"), 1)


def accepts(path: tuple[str, ...], value: Any) -> bool:
    """Whether the schema takes the defaults with one value changed (without running Helm)."""
    return VALIDATOR.is_valid(put(DEFAULTS, path, value))


def test_any_blocks_and_keys_may_be_null(render, conforms):
    """Null acts as the default, in a plain install and with everything turned on."""
    rendered = []

    @SLOW
    @given(data=st.data())
    def renders(data: st.DataObject) -> None:
        values = data.draw(st.sampled_from([{}, EVERYTHING]))
        paths = [p for p in BLOCKS if p not in ((), ("model",))]
        paths += [p for p, _ in LEAVES if p != ("model", "maxModelLen")]
        chosen = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=8))
        for path in sorted(chosen, key=len, reverse=True):  # a block's null after that of its keys
            values = put(values, path, None)
        broken = render.problems(values)
        # What needs a Redis address, a Gateway or a tag says so when just that is null.
        assert set(broken.values()) <= {"RPD181", "RPD184", "RPD185"}, broken
        if not broken:
            rendered.append(render.text(values))

    renders()
    conforms("\n".join(rendered))


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_all_blocks_may_be_null_at_once(render, values):
    nulled = {
        **values,
        **{path[0]: None for path in BLOCKS if len(path) == 1 and path != ("model",)},
    }
    assert render.problems(nulled) == {}


def test_the_context_length_is_required(render):
    with pytest.raises(Refused, match="maxModelLen"):
        render.text({"model": {"maxModelLen": None}})


def test_every_key_is_described_and_every_free_value_has_an_example():
    def check(schema: dict[str, Any], path: str) -> None:
        for key, child in schema.get("properties", {}).items():
            assert len(child.get("description", "")) > 4, f"{path}{key} has no description"
            assert child["description"].endswith("."), (
                f"{path}{key}: a sentence ends in a full stop"
            )
            check(child, f"{path}{key}.")
            if "items" in child:
                check(child["items"], f"{path}{key}[].")

    check(SCHEMA, "")
    assert SCHEMA["additionalProperties"] is False
    jsonschema.Draft7Validator.check_schema(WRITTEN)
