"""Values under construction."""

from __future__ import annotations

from raypd.importer.draft import Draft, cut, leaves, merged, pruned

DEFAULTS = {"a": {"b": 1, "map": {"role": "x"}}, "list": [1], "z": ""}


def test_what_equals_the_defaults_is_left_out_and_the_order_is_theirs() -> None:
    values = {"z": "y", "list": [1], "a": {"own": 3, "b": 1}}
    assert list(pruned(values, DEFAULTS).items()) == [("a", {"own": 3}), ("z", "y")]


def test_a_null_that_takes_a_default_away_stays() -> None:
    assert pruned({"a": {"map": {"role": None}}}, DEFAULTS) == {"a": {"map": {"role": None}}}


def test_lists_replace_and_maps_merge() -> None:
    over = {"list": [2], "a": {"map": {"pool": "y"}}}
    assert merged(DEFAULTS, over) == {
        "a": {"b": 1, "map": {"role": "x", "pool": "y"}},
        "list": [2],
        "z": "",
    }


def test_leaves_name_the_places_that_cut_takes_out() -> None:
    node = {"a": [{"b": 1}, 2], "c": {}}
    assert list(leaves(node)) == [(("a", 0, "b"), 1), (("a", 1), 2)]
    cut(node, ("a", 0, "b"))
    assert node == {"a": [{}, 2], "c": {}}


def test_one_place_is_told_once_and_covers_what_lies_in_it() -> None:
    draft = Draft()
    for remedy in ("prefill", "decode"):
        draft.changed("RPD764", "spec.a", "Because.", remedy)
    assert len(draft.findings) == 1
    assert draft.knows("spec.a.b")
    assert draft.knows("spec.a[0]")
    assert not draft.knows("spec.ab")


def test_what_was_put_is_a_copy() -> None:
    draft, own = Draft(), {"k": 1}
    draft.put("a.b", own, "why")
    own["k"] = 2
    assert (draft.get("a.b"), draft.get("a.x.y", 7)) == ({"k": 1}, 7)
    assert draft.comments == {"a.b": "why"}
