"""KubeRay's operator: known by what it is, and installed only from a chart that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from raypd import yaml_text
from raypd.data import load
from raypd.live.install import operator
from raypd.render import default_chart
from raypd.report import UsageError
from unit.live import paper

DEPLOYMENT = "/apis/apps/v1/namespaces/kuberay-system/deployments/kuberay-operator"


class FakeHelm:
    """Remembers what it was asked for; an upgrade makes what `makes` says, by path."""

    def __init__(
        self, cluster: paper.FakeCluster, makes: dict[str, Any], chart: Path | None = None
    ):
        self.cluster, self.makes, self.chart = cluster, makes, chart
        self.pulled: list[tuple[str, str | None, str | None]] = []
        self.upgraded: list[tuple[Any, ...]] = []

    def pull(self, chart: str, repository: str | None, version: str | None) -> Path:
        self.pulled.append((chart, repository, version))
        if self.chart is None:
            raise UsageError("Helm failed: no such host")
        return self.chart

    def upgrade(self, release: str, chart: Path, namespace: str, extra: tuple[str, ...]) -> int:
        self.upgraded.append((release, chart.name, namespace, extra))
        self.cluster.objects.update(self.makes)
        return 1


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A folder that a chart lies in, as `helm pull` leaves one."""
    folder = tmp_path / "pulled" / "kuberay-operator"
    (folder / "crds").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("{name: kuberay-operator, version: 1.6.2}")
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "rayservices.ray.io"}}
    (folder / "crds" / "a.yaml").write_text(yaml.safe_dump_all([crd, None]))
    return folder


def install(helm: FakeHelm, given: str | None) -> list[str]:
    said: list[str] = []
    operator.install(helm.cluster, helm, given, 1, said.append)  # type: ignore[arg-type]
    return said


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, "1.6.2"),
        ({"image": "1.2.3.4:5000/kuberay/operator:1.5.0-rc.1"}, "1.5.0"),
        ({"image": "localhost:5000/kuberay/operator"}, None),
        ({"image": "kuberay/operator:nightly@sha256:123"}, None),
    ],
)
def test_the_version_is_that_of_the_tag(changes: dict[str, Any], version: str | None) -> None:
    assert operator.version_of(paper.operator(**changes)) == version


def test_without_a_tag_the_charts_label_tells_the_version() -> None:
    found = paper.operator(image="kuberay/operator@sha256:123")
    found["metadata"]["labels"]["helm.sh/chart"] = "kuberay-operator-1.4.2"
    assert operator.version_of(found) == "1.4.2"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], None),
        (["--watch-namespace", ""], None),
        (["-watch-namespace=a,b"], ["a", "b"]),
        (["--enable-leader-election", "--watch-namespace", "a"], ["a"]),
        (["--watch-namespace"], None),
    ],
)
def test_the_namespaces_that_it_watches(arguments: list[str], names: list[str] | None) -> None:
    assert operator.watched(paper.operator(args=arguments)) == names


def test_it_is_found_by_its_labels_or_by_its_image() -> None:
    apiserver = paper.operator(image="quay.io/kuberay/apiserver:v1.6.2")
    apiserver["metadata"]["name"] = "kuberay-apiserver"
    renamed = paper.operator(image="example.org/kuberay-operator:v1.6.2")
    renamed["metadata"] = {"name": "ray", "labels": {"app.kubernetes.io/name": "ray"}}
    assert operator.find([apiserver]) is None
    assert operator.find([apiserver, renamed]) is renamed
    stopped = paper.operator(ready=0)
    assert operator.find([stopped, renamed]) is renamed
    assert operator.find([stopped]) is stopped


def test_the_wanted_version_is_one_that_the_chart_knows() -> None:
    text = (default_chart() / "files" / "versions.yaml").read_text(encoding="utf-8")
    minor = operator.wanted_version().rpartition(".")[0]
    assert minor in yaml_text.load(text)["kuberay"]


def test_it_is_installed_where_the_chart_lets_it_in() -> None:
    values = yaml_text.load((default_chart() / "values.yaml").read_text(encoding="utf-8"))
    (peer,) = values["networkPolicy"]["operator"]
    labels = peer["namespaceSelector"]["matchLabels"]
    assert labels["kubernetes.io/metadata.name"] == load("operator.yaml")["namespace"]


def test_install_applies_the_crds_of_the_chart_and_lets_helm_leave_them(chart: Path) -> None:
    cluster = paper.FakeCluster()
    helm = FakeHelm(cluster, {DEPLOYMENT: paper.operator()})
    said = install(helm, str(chart))
    assert [crd["metadata"]["name"] for crd in cluster.applied] == ["rayservices.ray.io"]
    assert helm.upgraded == [
        ("kuberay-operator", "kuberay-operator", "kuberay-system", ("--skip-crds",))
    ]
    assert helm.pulled == []
    assert said[-1] == "KubeRay operator runs"
    assert chart.is_dir()


def test_without_a_chart_the_published_one_is_fetched_and_removed(chart: Path) -> None:
    cluster = paper.FakeCluster()
    helm = FakeHelm(cluster, {DEPLOYMENT: paper.operator()}, chart.parent)
    install(helm, None)
    known = load("operator.yaml")
    assert helm.pulled == [(known["chart"], known["repository"], operator.wanted_version())]
    assert not chart.parent.exists()


def test_a_chart_that_cannot_be_had_says_how_to_bring_it() -> None:
    cluster = paper.FakeCluster()
    with pytest.raises(UsageError, match="no such host") as failure:
        install(FakeHelm(cluster, {}), None)
    assert "--operator-chart" in str(failure.value)
    assert cluster.applied == []


def test_a_folder_that_is_no_chart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Chart\.yaml"):
        install(FakeHelm(paper.FakeCluster(), {}), str(tmp_path))


def test_an_operator_that_does_not_come_up_says_what_it_waits_for(chart: Path) -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    pod = {"metadata": {"name": "op-1"}, "status": {"containerStatuses": [{"state": waiting}]}}
    cluster = paper.FakeCluster({"/api/v1/namespaces/kuberay-system/pods/op-1": pod})
    helm = FakeHelm(cluster, {DEPLOYMENT: paper.operator(ready=0)})
    with pytest.raises(UsageError, match="pod op-1: ImagePullBackOff: no such image"):
        install(helm, str(chart))
