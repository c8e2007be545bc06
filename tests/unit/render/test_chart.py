"""A chart's tables."""

from __future__ import annotations

import shutil
from pathlib import Path

from raypd.render.chart import default_chart, tables
from unit.plan.samples import INSTANCES, MODELS


def test_a_chart_without_tables(tmp_path: Path) -> None:
    shutil.copy(default_chart() / "Chart.yaml", tmp_path)
    assert tables(tmp_path, "models") == {"models": {}}
    assert tables(default_chart(), "models")["models"] == MODELS


def test_several_at_once() -> None:
    assert tables(default_chart(), "instances", "models") == {
        "instances": INSTANCES,
        "models": MODELS,
    }
