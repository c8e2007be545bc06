"""What an upgrade does to a deployment that serves, under the chart's default strategy `None`.

The last test here removes the reference deployment.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from chart.rendering import CHART, run_helm
from cluster.conftest import REFERENCE
from cluster.load import ERROR, OK, WRONG, streaming
from cluster.release import NAMESPACE, RAYSERVICES, SELECTOR, STARTS_SECONDS, Release
from raypd.toolchain import helm

ROLES = ("head", "prefill", "decode")
CHANGES_SECONDS = 600  # of a small and busy machine: one start of an engine and more
LOGS = "/tmp/ray/session_latest/logs"
pytestmark = pytest.mark.timeout(2 * (STARTS_SECONDS + CHANGES_SECONDS))


def test_a_new_chart_version_restarts_nothing(reference, tmp_path):
    pods, engines = _pods(reference), _engines(reference)
    spec = reference.rayservice()["spec"]
    options = ("--destination", str(tmp_path), "--version", "99.0.0")
    run_helm(helm(), "package", str(CHART), *options)
    (package,) = tmp_path.glob("*.tgz")
    with streaming(reference.endpoint()) as stream:
        reference.upgrade(REFERENCE, package=package)
        reference.wait("the new version", lambda: "99.0.0" in _chart_of(reference), 30)
        reference.wait("some answers", lambda: len(stream.sent) >= 10, 60)
    assert reference.rayservice()["spec"] == spec
    assert (_pods(reference), _engines(reference)) == (pods, engines)
    assert set(stream.counts()) == {OK}
    reference.rollback()


@pytest.mark.slow
def test_another_replica_disturbs_no_engine_that_is_there(reference, tmp_path):
    """`helm upgrade` alone would not do: KubeRay hands no number of replicas on to a cluster that is
    there (rayservice_controller.go, shouldUpdateCluster). `raypd up` does."""
    pods, engines = _pods(reference), _engines(reference)
    with streaming(reference.endpoint()) as stream:
        reference.up(REFERENCE, _values(tmp_path, {"prefill": {"replicas": 2}}))
    # Some may take long: the machine starts an engine meanwhile, and the first request that decode
    # gives to the new prefill waits for their handshake.
    assert stream.counts()[OK] > 0
    assert not {ERROR, WRONG} & set(stream.counts()), stream.seen()
    more = _engines(reference)
    assert (more["prefill"] > engines["prefill"], len(more["prefill"])) == (True, 2)
    assert more["decode"] == engines["decode"]
    assert all(_pods(reference)[role] >= pods[role] for role in ROLES)

    reference.up(REFERENCE)
    # Which of the two goes is the choice of KubeRay, and an engine may have to move to the other pod.
    reference.wait("every pod ready", reference.whole, CHANGES_SECONDS)
    reference.wait("one prefill", lambda: len(reference.engines("prefill")) == 1, CHANGES_SECONDS)
    assert reference.engines("decode") == engines["decode"]
    assert {**_pods(reference), "prefill": None} == {**pods, "prefill": None}


@pytest.mark.slow
def test_a_new_engine_argument_replaces_the_engine_on_the_same_pods(reference, tmp_path):
    """There is no place for a second engine beside the old: had Serve to start the new one first,
    it would wait for ever. The same goes for the way back."""
    pods, engines = _pods(reference), _engines(reference)
    before = _batch(reference)
    values = _values(tmp_path, {"decode": {"maxNumBatchedTokens": before // 2}})
    reference.upgrade(REFERENCE, values)
    _wait_for_another_decode(reference, engines["decode"])
    assert _batch(reference) == before // 2

    second = reference.engines("decode")
    reference.rollback()
    _wait_for_another_decode(reference, second)
    assert _batch(reference) == before
    assert _pods(reference) == pods


def test_uninstall_leaves_nothing(reference):
    reference.uninstall()
    core = reference.target.core

    def left() -> list[str]:
        found = [pod.metadata.name for pod in reference.pods()]
        found += [item["metadata"]["name"] for item in _rayservices(reference)]
        for kind in (core.list_namespaced_service, core.list_namespaced_secret):
            found += [o.metadata.name for o in kind(NAMESPACE, label_selector=SELECTOR).items]
        return found

    reference.wait("nothing of the release left", lambda: not left(), 180)


def _wait_for_another_decode(release: Release, old: set[str]) -> None:
    def there() -> bool:
        now = release.engines("decode")
        return len(now) == 1 and now != old

    release.wait("another decode engine", there, CHANGES_SECONDS)
    release.wait("the application RUNNING", release.whole, CHANGES_SECONDS)


def _values(folder: Path, values: dict) -> Path:
    file = folder / "change.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def _pods(release: Release) -> dict[str, set[str]]:
    return {role: release.uids(role) for role in ROLES}


def _engines(release: Release) -> dict[str, set[str]]:
    return {role: release.engines(role) for role in ("prefill", "decode")}


def _chart_of(release: Release) -> str:
    return release.rayservice()["metadata"]["labels"]["helm.sh/chart"]


def _batch(release: Release) -> int:
    """The most tokens of a batch, as the newest engine of decode says in its log."""
    command = f"cd {LOGS} && ls -tr worker-* | xargs grep -ho 'max_num_batched_tokens=[0-9]*'"
    said = release.execute(release.pod("decode"), command).split()
    return int(said[-1].partition("=")[2])


def _rayservices(release: Release) -> list[dict]:
    return release.target.custom.list_namespaced_custom_object(**RAYSERVICES)["items"]
