"""The chart on a user's cluster: installed, looked at from all sides, removed.

./scripts/test tests/live --kubeconfig ~/.kube/config --app-config-file-path values/g6-qwen3.5-9b.yaml
"""

from __future__ import annotations

from live.checks import ReleaseChecks


class TestRelease(ReleaseChecks):
    pass
