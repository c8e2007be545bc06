"""`raypd upgrade-plan` as it is called."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from raypd.render import ValueArguments, default_chart
from raypd.report import UsageError
from raypd.upgrade import verb
from unit.live import paper


def call(capsys: pytest.CaptureFixture[str], *set_: str, **options: Any) -> tuple[int, Any]:
    """Exit code and what was printed, JSON parsed."""
    known: dict[str, Any] = {
        "chart": None,
        "arguments": ValueArguments(set_=list(set_)),
        "release": "llm",
        "namespace": "inference",
        "kubeconfig": None,
        "context": None,
        "revision": None,
        "manifest": None,
        "output": "json",
    }
    code = verb.run(**{**known, **options})
    said = capsys.readouterr().out
    return code, json.loads(said) if said.startswith("{") else said


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A file with the render of the defaults."""
    path = tmp_path / "older.yaml"
    path.write_text(paper.rendered().text)
    return path


def test_an_older_render_and_the_same_values(older: Path, capsys: Any) -> None:
    code, plan = call(capsys, manifest=older)
    assert (code, plan["changes"], plan["verdict"]["kind"]) == (0, [], "nothing")
    assert any("how many GPUs are free" in line for line in plan["not_checked"])


def test_an_older_render_and_another_argument(older: Path, capsys: Any) -> None:
    code, plan = call(capsys, "decode.maxNumSeqs=8", manifest=older)
    (change,) = plan["changes"]
    assert (code, change["before"], change["after"], change["actor"]) == (1, None, 8, "Ray Serve")
    assert (
        change["where"] == "spec.serveConfigV2 llm: args.decode_config.engine_kwargs.max_num_seqs"
    )
    assert plan["verdict"]["interrupted"] is True
    assert [finding["code"] for finding in plan["findings"]] == ["RPD723"]


def test_people_get_a_table_and_sentences(older: Path, capsys: Any) -> None:
    code, said = call(capsys, "decode.maxNumSeqs=8", manifest=older, output="human")
    assert code == 1
    for words in (
        "max_num_seqs",
        "none -> 8",
        "New engines in place.",
        "RPD723 warning",
        "Room: no",
    ):
        assert words in said


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the chart with a values file beside it, both committed."""
    shutil.copytree(default_chart(), tmp_path / "chart")
    (tmp_path / "values.yaml").write_text("endpoint: {replicas: 1}\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def test_a_revision_of_a_checkout(checkout: Path, capsys: Any) -> None:
    values = checkout / "values.yaml"
    values.write_text("endpoint: {replicas: 2}\n")
    arguments = ValueArguments(values=[values], set_=["commonLabels.a=b"])
    options = {"chart": checkout / "chart", "arguments": arguments, "revision": "HEAD"}
    code, plan = call(capsys, **options)
    assert plan["title"] == "llm (namespace inference), from HEAD to what is here"
    assert {change["actor"] for change in plan["changes"]} == {"Ray Serve", "Helm"}
    assert (code, plan["verdict"]["kind"]) == (0, "in place")
    assert any("--set" in line for line in plan["checked"])


def test_values_that_the_chart_of_that_time_refuses(checkout: Path, capsys: Any) -> None:
    values = checkout / "values.yaml"
    values.write_text("endpoint: {replicass: 2}\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(
        ["git", *identity, "commit", "-qam", "worse"], cwd=checkout, check=True, timeout=60
    )
    values.write_text("endpoint: {replicas: 2}\n")
    arguments = ValueArguments(values=[values])
    with pytest.raises(UsageError, match=r"RPD101 endpoint\.replicass"):
        call(capsys, chart=checkout / "chart", arguments=arguments, revision="HEAD")


def test_values_that_do_not_render_are_told_as_findings(older: Path, capsys: Any) -> None:
    code, report = call(capsys, "prefill.replicass=2", manifest=older)
    assert (code, report["findings"][0]["code"]) == (1, "RPD101")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"revision": "HEAD", "manifest": Path("x.yaml")}, "Give one of them"),
        ({"revision": "HEAD", "context": "c"}, "one or the other"),
        ({"manifest": Path("no-such.yaml")}, "cannot be read"),
        ({"revision": "no-such-revision"}, "no-such-revision"),
        ({"chart": Path("no-such-chart"), "revision": "HEAD"}, "no-such-chart"),
    ],
)
def test_a_mistake_of_the_call(options: dict[str, Any], says: str, capsys: Any) -> None:
    with pytest.raises(UsageError, match=says):
        call(capsys, **options)


def test_a_manifest_of_something_else(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("kind: ConfigMap\n")
    with pytest.raises(UsageError, match="holds no RayService"):
        call(capsys, manifest=path)


class FakeHelm:
    """What Helm knows of the release."""

    def __init__(self) -> None:
        self.state: str | None = "deployed"
        self.objects = paper.rendered().manifests

    def status(self, *_: str) -> str | None:
        return self.state

    def manifests(self, *_: str) -> list[dict[str, Any]]:
        return self.objects


@pytest.fixture
def helm(monkeypatch: pytest.MonkeyPatch) -> FakeHelm:
    """The defaults run in a cluster; what it gets is the reference with its two GPU nodes."""
    made = FakeHelm()
    live = copy.deepcopy(paper.rendered().rayservice)
    live["status"] = {"activeServiceStatus": {"rayClusterName": "c1"}}
    running = {"metadata": {"name": "c1"}, "spec": live["spec"]["rayClusterConfig"]}
    ray = "/apis/ray.io/v1/namespaces/inference"
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayservices.ray.io"
    objects = {
        f"{ray}/rayservices/llm-ray-pd-llm": live,
        f"{ray}/rayclusters/c1": running,
        crd: paper.crd(),
        **{f"/api/v1/nodes/{node['metadata']['name']}": node for node in paper.nodes()},
    }
    monkeypatch.setattr(verb, "Cluster", lambda *_: paper.FakeCluster(objects))
    monkeypatch.setattr(verb, "Helm", lambda *_: made)
    return made


def test_the_release_in_the_cluster(helm: FakeHelm, capsys: Any) -> None:
    code, plan = call(capsys)
    assert (code, plan["verdict"]["kind"], plan["room"]["pods"]) == (0, "nothing", 0)
    assert "room on the nodes" in plan["checked"]
    code, plan = call(capsys, "prefill.replicas=3")
    assert [finding["code"] for finding in plan["findings"]] == ["RPD721", "RPD721", "RPD726"]
    assert plan["room"]["needed"]["nvidia.com/gpu"] == plan["room"]["free"]["nvidia.com/gpu"] == 2


def test_another_name_in_the_cluster(helm: FakeHelm, capsys: Any) -> None:
    _, plan = call(capsys, "fullnameOverride=other")
    assert plan["verdict"]["kind"] == "replaced"


@pytest.mark.parametrize(
    ("state", "says"), [(None, "nothing to upgrade"), ("pending-upgrade", "helm rollback")]
)
def test_a_release_that_cannot_be_upgraded(
    helm: FakeHelm, state: str | None, says: str, capsys: Any
) -> None:
    helm.state = state
    with pytest.raises(UsageError, match=says):
        call(capsys)


def test_a_release_of_another_chart(helm: FakeHelm, capsys: Any) -> None:
    helm.objects = []
    with pytest.raises(UsageError, match="0 RayServices"):
        call(capsys)
