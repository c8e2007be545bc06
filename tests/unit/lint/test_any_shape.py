"""Whatever a file holds, the checks answer with findings and never fall over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.lint import check
from raypd.render import Rendered
from unit.lint.sample import Sample

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.text(max_size=8),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = node if isinstance(node, (dict, list)) else []
    for key, value in inside.items() if isinstance(inside, dict) else enumerate(inside):
        yield from _places(value, (*path, key))


def _document() -> dict[str, Any]:
    sample = Sample()
    return {"rayservice": sample.rayservice, "serve_config": sample.serve_config}


PLACES = [place for place in _places(_document()) if len(place) > 1]


@settings(max_examples=min(150, settings.default.max_examples), deadline=None, derandomize=True)
@given(place=st.sampled_from(PLACES), value=ANYTHING, kind=st.sampled_from(["dense", "hybrid"]))
def test_anything_anywhere_gives_a_report(place: tuple[Any, ...], value: Any, kind: str) -> None:
    document = _document()
    node: Any = document
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    rayservice = document["rayservice"]
    rendered = Rendered(
        yaml.safe_dump(rayservice), [rayservice], rayservice, document["serve_config"]
    )
    report = check(rendered, model={"kind": kind})
    assert report.checked
    for finding in report.findings:
        assert finding.message
        assert finding.remedy
