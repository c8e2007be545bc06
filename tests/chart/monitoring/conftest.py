"""The chart rendered with everything under `monitoring` turned on."""

from __future__ import annotations

from functools import cache

import pytest

from chart.monitoring.objects import Monitored
from chart.rendering import ROOT, Manifest, Render
from raypd import yaml_text

KINDS = ("podMonitor", "prometheusRule", "dashboards")


@pytest.fixture(scope="session")
def monitored(render: Render) -> Monitored:
    """monitored(*Helm options): the manifests."""

    @cache
    def run(*options: str) -> list[Manifest]:
        return render.all({"monitoring": {kind: {"enabled": True} for kind in KINDS}}, *options)

    return run


@pytest.fixture(scope="session")
def metrics() -> Manifest:
    """scripts/dashboards/metrics.yaml: every metric that alerts and dashboards may use."""
    return yaml_text.load((ROOT / "scripts/dashboards/metrics.yaml").read_text())
