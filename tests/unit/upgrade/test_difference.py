"""What counts as a difference between what was and what is to come."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.upgrade.difference import (
    WITHOUT_SCHEMA,
    Difference,
    differences,
    equal,
    literal_differences,
)
from unit.live import paper

SCHEMA = {
    "type": "object",
    "properties": {
        "cpu": {"x-kubernetes-int-or-string": True},
        "protocol": {"type": "string", "default": "TCP"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cpu": "1"}, {"cpu": "1000m"}),
        ({"cpu": "1"}, {"cpu": 1}),
        ({"protocol": "TCP"}, {}),
        ({}, {"labels": {}}),
        ({"labels": None, "ports": [], "inner": {"else": {}}}, {}),
        ({"tty": False}, {}),
    ],
)
def test_other_spellings_and_defaults_are_no_difference(before: Any, after: Any) -> None:
    assert differences(SCHEMA, before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ({"cpu": "1"}, {"cpu": "2"}, "cpu"),
        ({"protocol": "TCP"}, {"protocol": "UDP"}, "protocol"),
        ({"protocol": "UDP"}, {}, "protocol"),
        ({"labels": {"b": "1"}}, {"labels": {"a": "1"}}, "labels.a"),
        (
            {"ports": [{"name": "a", "port": 1}]},
            {"ports": [{"name": "a", "port": 2}]},
            "ports[a].port",
        ),
        ({"ports": [{"name": "a"}]}, {"ports": []}, "ports[a]"),
        ({"args": ["a"]}, {"args": ["b"]}, "args[0]"),
        ({"args": ["a"]}, {"args": ["a", "b"]}, "args"),
        # A pointer in Go, where false is not the same as nothing.
        ({"enableServiceLinks": False}, {}, "enableServiceLinks"),
    ],
)
def test_a_difference_is_told_with_its_path(before: Any, after: Any, path: str) -> None:
    assert [one.path for one in differences(SCHEMA, before, after)][:1] == [path]


def test_both_values_are_told_and_none_where_there_is_none() -> None:
    old, new = {"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "2"}]}
    assert differences({}, old, new) == [
        Difference("env[B]", None, {"name": "B", "value": "2"}),
        Difference("env[A]", {"name": "A", "value": "1"}, None),
    ]


def test_the_order_of_variables_matters_because_kuberay_hashes_it() -> None:
    one, other = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    found = differences({}, {"env": [one, other]}, {"env": [other, one]})
    assert [(d.path, d.before, d.after) for d in found] == [("env (order)", ["A", "B"], ["B", "A"])]


def test_without_a_schema_quantities_and_protocols_are_still_known() -> None:
    old = {"a": [{"resources": {"limits": {"cpu": "2000m"}}, "ports": [{"protocol": "TCP"}]}]}
    new = {"a": [{"resources": {"limits": {"cpu": 2}}, "ports": [{}]}]}
    assert differences(WITHOUT_SCHEMA, old, new) == []
    new["a"][0]["resources"]["limits"]["cpu"] = 3
    (found,) = differences(WITHOUT_SCHEMA, old, new)
    assert found.path == "a[0].resources.limits.cpu"


def test_in_arguments_nothing_is_filled_in() -> None:
    found = literal_differences({"a": False, "b": 1, "c": ""}, {"a": None, "b": True, "c": ""})
    assert [one.path for one in found] == ["a", "b"]


@given(JSON)
def test_nothing_differs_from_itself(value: Any) -> None:
    again = copy.deepcopy(value)
    assert equal(value, again)
    assert differences(WITHOUT_SCHEMA, value, again) == []
    assert differences(paper.schema(), value, again) == []
    assert literal_differences(value, again) == []


@given(JSON, JSON)
def test_any_two_values_can_be_compared(one: Any, other: Any) -> None:
    found = differences(WITHOUT_SCHEMA, {"x": one}, {"x": other})
    assert all(place.path.startswith("x") for place in found)
    assert bool(literal_differences([one], [other])) == bool(literal_differences([other], [one]))


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, int], random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert differences(WITHOUT_SCHEMA, value, {key: value[key] for key in keys}) == []
