"""Which cluster, chart and values the tests of this folder take: the options of pytest-helm-charts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.rendering import CHART, run_helm
from live.deployed import Deployed
from raypd.live.release import Helm
from raypd.report import UsageError
from raypd.toolchain import helm


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.import_plugin("pytest_helm_charts.plugin")
    group = parser.getgroup("live", "a release of the chart on a cluster")
    group.addoption(
        "--existing", metavar="RELEASE", help="check this release, which is up, and leave it"
    )
    group.addoption(
        "--namespace", default="inference", help="of the release (default: %(default)s)"
    )


def pytest_configure() -> None:
    # One of the plugin's fixtures, for another platform, is written in a way that pytest warns of.
    warnings.filterwarnings("ignore", "cannot discover fixture 'app_catalog_factory'")


@pytest.fixture(scope="module")
def kube_config(pytestconfig: pytest.Config) -> Path:
    """The kubeconfig; named on the command line, because what a shell's KUBECONFIG points to may not
    be meant for a release that is installed and removed."""
    if not (given := pytestconfig.getoption("kubeconfig")):
        pytest.skip("no cluster: --kubeconfig FILE names one")
    return Path(given).expanduser()


@pytest.fixture(scope="module")
def chart(chart_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart of --chart-path, or this checkout's, packaged as `helm package` makes it."""
    if chart_path:
        return Path(chart_path)
    folder = tmp_path_factory.mktemp("package")
    run_helm(helm(), "package", str(CHART), "--destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    return archive


@pytest.fixture(scope="module")
def deployed(
    kube_config: Path, chart: Path, values_file_path: str, pytestconfig: pytest.Config
) -> Iterator[Deployed]:
    """The release: an existing one, or one that is installed and in the end removed."""
    namespace = pytestconfig.getoption("namespace")
    if existing := pytestconfig.getoption("existing"):
        yield Deployed(kube_config, existing, namespace, stays=True)
        return
    release = Deployed(kube_config, "llm", namespace)
    if state := _status(release):
        pytest.fail(
            f"release {release.name} is {state} in namespace {namespace} already, and these tests "
            f"would remove it: --existing {release.name} checks it as it is, --namespace takes "
            "another place.",
            pytrace=False,
        )
    try:
        release.up(chart, [Path(values_file_path)] if values_file_path else [])
        yield release
    finally:
        if _status(release):
            release.down()


def _status(release: Deployed) -> str | None:
    """Helm's word for the release, None when there is none."""
    try:
        return Helm(release.kubeconfig).status(release.name, release.namespace)
    except UsageError as error:
        pytest.fail(str(error), pytrace=False)
