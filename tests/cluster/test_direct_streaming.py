"""The reference deployment whose decode engine answers clients itself: HAProxy on each pod, no ingress, and the guard
inside the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.conftest import REFERENCE
from cluster.release import Release
from live.checks import ReleaseChecks
from live.deployed import Deployed

pytestmark = pytest.mark.slow


@pytest.fixture
def direct(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    values = Path(tmp_path_factory.getbasetemp()) / "direct.yaml"
    values.write_text("endpoint: {directStreaming: true}\n")
    release.serve(REFERENCE, values)
    return release


class TestDirect(ReleaseChecks):
    """The last of these checks ends the release, by `raypd down`."""

    @pytest.fixture
    def deployed(self, direct: Release) -> Deployed:
        return replace(direct.deployed, stays=False)
