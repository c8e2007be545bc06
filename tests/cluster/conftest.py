"""The cluster that the tests of this folder run on: the devcluster, or a user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.rendering import CHART, ROOT, run_helm
from cluster import target
from cluster.devcluster import lifecycle
from cluster.release import Release
from cluster.target import Target
from raypd.toolchain import helm

NAME = "test"
REFERENCE = ROOT / "values" / "g6-qwen3.5-9b.yaml"
# A start takes more time than most tests. The first of these share the reference deployment, the
# last of them removes it; then come those that install something else.
ORDER = (
    "devcluster",
    "install",
    "network_policy",
    "faults",
    "upgrade",
    "aggregated",
    "direct_streaming",
    "scheduling",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster", "a Kubernetes cluster to test the chart on")
    group.addoption("--kubeconfig", type=Path, help="an existing cluster, instead of making one")
    group.addoption("--values", type=Path, help="values that make the chart fit that cluster")
    group.addoption("--write-faults", type=Path, help="a page for what test_faults.py measures")
    group.addoption("--keep-cluster", action="store_true", help="leave the made cluster up")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        name = item.path.stem.removeprefix("test_")
        ours = item.path.parent == Path(__file__).parent
        return ORDER.index(name) + 1 if ours and name in ORDER else 0

    items.sort(key=place)


@pytest.fixture(scope="session")
def root() -> None:
    """What makes a cluster on this machine needs it: namespaces, mounts and cgroups."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a cluster here; --kubeconfig FILE gives the tests another")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Target]:
    option = request.config.getoption
    if given := option("--kubeconfig"):
        yield Target(given, option("--values"))
        return
    request.getfixturevalue("root")
    made = lifecycle.up(NAME)
    try:
        yield Target(made.kubeconfig, target.fit(made), made)
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


@pytest.fixture(scope="session")
def release(cluster: Target, package: Path) -> Iterator[Release]:
    """The release `llm` and its namespace; what is left of both is removed in the end."""
    release = Release(cluster, package)
    release.make_namespace()
    try:
        yield release
    finally:
        release.remove()


@pytest.fixture
def reference(release: Release) -> Release:
    """The reference deployment, serving. Tests share one installation and leave it serving."""
    release.serve(REFERENCE)
    return release
