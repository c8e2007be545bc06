"""Whatever a manifest holds, the importer answers with values that the chart's schema takes, or with
one sentence, and never falls over."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd import yaml_text
from raypd.importer import compare
from raypd.importer.draft import merged
from raypd.importer.read import original
from raypd.importer.secret import scrub
from raypd.importer.verb import Facts, accepted, drafted
from raypd.importer.write import text
from raypd.render import Rendered, all_from_manifest, default_chart
from raypd.report import UsageError
from unit.lint.sample import Sample
from unit.lint.test_any_shape import ANYTHING

MANIFESTS = Path(__file__).parents[1] / "lint" / "manifests"
FACTS = Facts.of(default_chart())
# Made once: jsonschema.validate would check the schema itself for each example.
VALIDATOR = jsonschema.Draft7Validator(FACTS.schema)


def document(name: str) -> dict[str, Any]:
    (one,) = all_from_manifest((MANIFESTS / name).read_text(), name)
    return {
        "rayservice": one.rayservice,
        "serve_config": one.serve_config,
        "others": [m for m in one.manifests if m is not one.rayservice],
    }


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if len(path) > 1:
        yield path
    inside = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in inside:
        yield from places(value, (*path, key))


NAMES = ("one-group.yaml", "two-groups.yaml", "aggregated.json", "right.yaml")
DOCUMENTS = {name: document(name) for name in NAMES}
PLACES = [(name, place) for name in NAMES for place in places(DOCUMENTS[name])]


def sample() -> Rendered:
    whole = Sample()
    rayservice = whole.rayservice
    return Rendered("", [rayservice], rayservice, whole.serve_config)


@settings(max_examples=min(120, settings.default.max_examples), deadline=None, derandomize=True)
@given(at=st.sampled_from(PLACES), value=ANYTHING)
def test_anything_anywhere_gives_values_that_the_schema_takes(
    at: tuple[str, tuple[Any, ...]], value: Any
) -> None:
    name, place = at
    whole = copy.deepcopy(DOCUMENTS[name])
    node = whole
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    rayservice = whole["rayservice"] if isinstance(whole["rayservice"], dict) else {}
    others = (
        [m for m in whole["others"] or [] if isinstance(m, dict)]
        if isinstance(whole["others"], list)
        else []
    )
    config = whole["serve_config"] if isinstance(whole["serve_config"], dict) else {}
    try:
        source = original(Rendered("", [rayservice, *others], rayservice, config), "the file")
    except UsageError as told:
        assert "import" in str(told) or "_config" in str(told)
        return
    draft = drafted(source, FACTS)
    render = original(sample(), "the sample")
    if set(render.homes) == set(source.homes):
        compare.escape(draft, source, render, FACTS.owned)
        scrub(draft)
        accepted(draft, FACTS)
        compare.differences(draft, source, render)
    VALIDATOR.validate(merged(FACTS.defaults, draft.values))
    written = text(draft.values, draft.comments, ["a file"])
    assert yaml_text.load(written) == draft.values
    assert "hf_" not in written + repr(draft.findings)


@pytest.mark.parametrize("name", ["one-group.yaml", "aggregated.json"])
def test_no_token_gets_into_values_or_findings(name: str) -> None:
    (one,) = all_from_manifest((MANIFESTS / name).read_text(), name)
    assert "hf_" in one.text
    draft = drafted(original(one, name), FACTS)
    assert "hf_" not in yaml.safe_dump(draft.values) + repr(draft.findings)
    assert draft.get("huggingface.existingSecret.name") == "hf-token"
