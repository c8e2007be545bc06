"""The file of values."""

from __future__ import annotations

from raypd import yaml_text
from raypd.importer.write import text


def test_comments_stand_over_their_values() -> None:
    values = {"a": {"b": {"c": 1}, "d": "x: y"}, "e": []}
    written = text(values, {"a.b.c": "one", "e": "none"}, ["head"])
    assert written.splitlines()[0] == "# head"
    assert "    # one\n    c: 1\n" in written
    assert "# none\ne: []" in written
    assert yaml_text.load(written) == values


def test_equal_blocks_are_written_out() -> None:
    block = {"cpu": "8"}
    written = text({"prefill": {"r": block}, "decode": {"r": block}}, {}, [])
    assert "&" not in written
    assert written.count("cpu: '8'") == 2


def test_strings_that_look_like_numbers_stay_strings() -> None:
    values = {"env": {"A": "010", "B": "1e6", "C": "yes", "1": "x"}}
    assert yaml_text.load(text(values, {}, [])) == values
