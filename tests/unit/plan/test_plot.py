"""The picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from raypd.plan.assess import assess
from raypd.plan.deployment import proposed
from raypd.plan.plot import check_path, draw
from raypd.plan.traffic import Traffic
from raypd.report import UsageError
from unit.plan.samples import INSTANCES, engine_on, known


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture_is_written(tmp_path: Path, name: str, start: bytes) -> None:
    shape = known("Qwen/Qwen3.5-9B")
    deployment = proposed(
        "g6.8xlarge", INSTANCES["g6.8xlarge"], engine_on("g6.8xlarge"), 4096, "m7i.xlarge"
    )
    path = tmp_path / name
    check_path(path)
    draw(path, shape, assess(shape, deployment, Traffic(2000, 300)), 4096)
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(("name", "says"), [("a.gif", ".png"), ("no/such/a.png", "no folder")])
def test_a_place_where_no_picture_can_be(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_path(tmp_path / name)
