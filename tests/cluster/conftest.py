"""The cluster that the tests of this folder run on: the devcluster, or a user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from chart.rendering import CHART, run_helm
from cluster import target
from cluster.devcluster import lifecycle
from cluster.release import Release
from cluster.target import Target
from raypd.toolchain import helm

NAME = "test"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster", "a Kubernetes cluster to test the chart on")
    group.addoption("--kubeconfig", type=Path, help="an existing cluster, instead of making one")
    group.addoption("--values", type=Path, help="values that make the chart fit that cluster")
    group.addoption("--keep-cluster", action="store_true", help="leave the made cluster up")


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    option = request.config.getoption
    if given := option("--kubeconfig"):
        yield Target(given, option("--values"), simulated=False)
        return
    made = lifecycle.up(NAME)
    try:
        target.put_model(made)
        values = tmp_path_factory.mktemp("values") / "cpu.yaml"
        values.write_text(yaml.safe_dump(target.cpu_values(), sort_keys=False))
        yield Target(made.kubeconfig, values, simulated=True)
    finally:
        if not option("--keep-cluster"):
            lifecycle.down(NAME)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged chart, as `helm package` makes it."""
    folder = tmp_path_factory.mktemp("package")
    run_helm(helm(), "package", str(CHART), "--destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    return archive


@pytest.fixture(scope="module")
def release(cluster: Target, package: Path) -> Iterator[Release]:
    """A release to install; what is left of it and its namespace is removed in the end."""
    release = Release(cluster, package)
    release.make_namespace()
    try:
        yield release
    finally:
        release.remove()
