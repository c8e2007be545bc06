"""The baseline, installed after another release was removed: two engines that do everything.

The caches on the nodes' disks outlive a release, so that this start is one with warm caches too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chart.rendering import ROOT
from cluster.release import Release
from live.checks import ReleaseChecks
from live.deployed import Deployed

pytestmark = pytest.mark.slow
VALUES = ROOT / "values" / "g6-qwen3.5-9b-aggregated.yaml"


@pytest.fixture
def aggregated(release: Release) -> Release:
    release.serve(VALUES)
    return release


def test_each_engine_has_a_gpu_node_for_itself(aggregated):
    nodes = {node.metadata.name: node for node in aggregated.target.core.list_node().items}
    engines = [pod.spec.node_name for pod in aggregated.pods("engine")]
    assert len(set(engines)) == len(engines) == 2
    for name in engines:
        assert nodes[name].metadata.labels["role"] == "gpu-worker"
    assert not aggregated.pods("prefill") + aggregated.pods("decode")


class TestAggregated(ReleaseChecks):
    """The last of these checks ends the release, by `raypd down`."""

    @pytest.fixture
    def deployed(self, aggregated: Release) -> Deployed:
        return replace(aggregated.deployed, stays=False)
