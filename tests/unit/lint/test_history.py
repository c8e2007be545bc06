"""Which versions know a thing: nothing is said where none does, and the nearest one is named."""

from __future__ import annotations

import pytest

from raypd.lint.contract import contract_for
from raypd.lint.history import known_elsewhere


def of_versions(*versions: str):
    return lambda contract: contract.version_of("vllm") in versions


@pytest.mark.parametrize(
    ("here", "known", "sentence"),
    [
        ("2.58.0", [], ""),
        ("2.58.0", ["0.26.0"], ""),  # its own word is not asked for
        ("2.58.0", ["0.22.0"], " vLLM 0.22.0 (Ray 2.56.1) was the last to know it."),
        ("2.60.0", ["0.22.0", "0.25.1"], " vLLM 0.25.1 (Ray 2.57.1) was the last to know it."),
        ("2.59.0", ["0.29.0"], " vLLM 0.29.0 (Ray 2.60.0) knows it."),
        ("2.57.0", ["0.27.0", "0.29.0"], " vLLM 0.27.0 (Ray 2.59.0) and later know it."),
        ("2.57.1", ["0.22.0", "0.29.0"], " vLLM 0.29.0 (Ray 2.60.0) knows it."),
        ("2.99.0", ["0.27.0"], " vLLM 0.27.0 (Ray 2.59.0) was the last to know it."),
    ],
)
def test_the_nearest_version_is_named(here: str, known: list[str], sentence: str) -> None:
    assert known_elsewhere(contract_for(here), "vllm", of_versions(*known)) == sentence


def test_ray_is_named_without_itself() -> None:
    said = known_elsewhere(
        contract_for("2.58.0"), "ray", lambda contract: contract.ray_version == "2.60.0"
    )
    assert said == " Ray 2.60.0 knows it."


def test_nixl_is_asked_once_for_each_of_its_versions() -> None:
    asked = []
    known_elsewhere(
        contract_for("2.58.0"), "nixl", lambda c: bool(asked.append(c.version_of("nixl")))
    )
    assert sorted(asked) == ["1.1.0", "1.3.0", "1.3.2"]
