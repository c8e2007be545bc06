"""`raypd preflight` as a whole."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from raypd.preflight import checks, verb
from raypd.preflight.image import Image
from raypd.preflight.outcome import Once
from raypd.render import ValueArguments, render
from raypd.render.helm import merged_values
from raypd.report import UsageError
from unit.live import paper
from unit.preflight.kubernetes.good import Cluster, daemonset, daemonsets, nodes
from unit.preflight.simulated import CHART, ROOT, Pages, PaperKube, config, simulated

TOGETHER = [
    ("g6", "g6-qwen3.5-9b", "Qwen/Qwen3.5-9B"),
    ("g6", "g6-qwen3.5-9b-aggregated", "Qwen/Qwen3.5-9B"),
    ("g6", "g6-qwen2.5-14b-multinode", "Qwen/Qwen2.5-14B-Instruct"),
    ("g5-tcp", "g5-qwen3-8b-tcp", "Qwen/Qwen3-8B"),
    ("g6e", "g6e-qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
    ("p5", "p5-gpt-oss-120b", "openai/gpt-oss-120b"),
]


@pytest.mark.parametrize(("name", "values", "model"), TOGETHER)
def test_shipped_files_give_no_finding_on_a_good_account(
    alone: None, name: str, values: str, model: str
) -> None:
    written = config(name)
    arguments = ValueArguments([ROOT / "values" / f"{values}.yaml"])
    pages = Pages()
    pages.model(model)
    pages.image("public.ecr.aws", "deep-learning-containers/ray", "serve-llm-cuda")
    with simulated(written["metadata"]["region"]) as aws:
        aws.eks(written["metadata"]["name"])
        made = verb.site_of(
            CHART,
            render(CHART, arguments),
            merged_values(CHART, arguments),
            config=written,
            web=pages.web,
        )
        where = dataclasses.replace(made, account=aws.account, image=Once(lambda: _IMAGE))
        report = checks.run(where, [c for c in checks.CHECKS if c.side != "Kubernetes"])
    assert report.findings == []
    # The capacity block of p5 is yet to be bought, and nobody has given a token here.
    assert [line for line in report.not_checked if "placeholder" not in line] == [
        "Hugging Face, token of the Hub ($HF_TOKEN): $HF_TOKEN is not set"
    ]


_IMAGE = Image("ray", ("amd64",), 7_000_000_000, "13.0.2")


def test_the_reference_gives_no_finding_on_a_good_cluster(alone: None) -> None:
    tolerant = [{"key": "aws.amazon.com/efa", "operator": "Exists"}]
    plugins = ("nvidia-device-plugin-daemonset", "aws-efa-k8s-device-plugin")
    cluster = Cluster(daemonsets(*(daemonset(name, tolerations=tolerant) for name in plugins)))
    rendered = paper.rendered()
    kube = PaperKube(rendered, cluster, paper.facts(nodes=nodes()))
    made = verb.site_of(CHART, rendered, merged_values(CHART, ValueArguments()), config=config())
    where = dataclasses.replace(made, kube=kube)
    report = checks.run(where, [c for c in checks.CHECKS if c.side == "Kubernetes"])
    assert report.findings == []
    (untold,) = report.not_checked
    assert "GPU feature discovery" in untold


def call(capsys: pytest.CaptureFixture[str], *set_: str, **changes: Any) -> tuple[int, Any]:
    """Runs the verb in-process; (exit code, parsed JSON)."""
    options: dict[str, Any] = {
        "chart": None,
        "arguments": ValueArguments(set_=list(set_)),
        "release": "llm",
        "namespace": "inference",
        "eksctl": ROOT / "eksctl" / "g6.yaml",
        "region": None,
        "profile": None,
        "kubeconfig": None,
        "context": None,
        "output": "json",
    }
    code = verb.run(**{**options, **changes})
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    monkeypatch.setattr(verb, "Web", lambda: Pages().web)


def test_without_credentials_network_and_cluster_nothing_passes(
    offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = call(capsys)
    assert (code, report["findings"], report["made"]) == (2, [], 0)
    said = "\n".join(report["not_checked"])
    for reason in ("no AWS credentials", "does not answer", "$HF_TOKEN", "no kubeconfig"):
        assert reason in said
    nothing = ("no ", "none ", "neither ")
    assert all(line.partition(": ")[2].startswith(nothing) for line in report["checked"])


def test_values_that_the_chart_refuses(offline: None, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = call(capsys, "model.dtype=int8")
    assert (code, [f["code"] for f in report["findings"]]) == (1, ["RPD104"])
    assert report["made"] == 0


def test_a_misspelt_key_does_not_hide_the_rest(
    offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = call(capsys, "prefill.replicass=2")
    assert [f["code"] for f in report["findings"]] == ["RPD101"]
    assert len(report["not_checked"]) > 3


def test_a_config_that_cannot_be_read(
    offline: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("kind: ClusterConfig\nmetadata: {name: a}\n")
    code, report = call(capsys, eksctl=path)
    assert code == 1
    assert {f["code"] for f in report["findings"]} == {"RPD401"}


def test_two_regions_contradict_each_other(
    offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="us-west-2"):
        call(capsys, region="eu-west-1")
    code, _ = call(capsys, region="us-west-2")
    assert code == 2


def kubeconfig(folder: Path, *clusters: str) -> Path:
    """One context for each; the first is the current one."""
    path = folder / "kubeconfig"
    contexts = [
        {"name": f"c{n}", "context": {"cluster": name, "user": "me"}}
        for n, name in enumerate(clusters)
    ]
    server = {"server": "https://127.0.0.1:9"}
    entries = [{"name": name, "cluster": server} for name in clusters]
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c0",
                "contexts": contexts,
                "clusters": entries,
                "users": [{"name": "me", "user": {}}],
            }
        )
    )
    return path


def site_with(path: Path, context: str | None = None, **parts: Any) -> Any:
    return verb.site_of(CHART, paper.rendered(), {}, kubeconfig=path, context=context, **parts)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("arn:aws:eks:eu-north-1:111122223333:cluster/prod", ("prod", "eu-north-1")),
        ("ray-pd-g6.us-west-2.eksctl.io", ("ray-pd-g6", "us-west-2")),
        ("minikube", (None, "eu-west-3")),
    ],
)
def test_cluster_and_region_of_a_kubeconfig(
    alone: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
    expected: tuple[str | None, str],
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    where = site_with(kubeconfig(tmp_path, entry))
    assert (where.cluster_name, where.account.region) == expected


def test_a_current_context_of_another_cluster_is_not_looked_at(alone: None, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "prod.us-west-2.eksctl.io", "ray-pd-g6.us-west-2.eksctl.io")
    (check,) = [check for check in checks.CHECKS if check.name == "operator-there"]
    report = checks.run(site_with(path, config=config()), [check])
    assert "the EKS cluster prod" in report.not_checked[0]
    report = checks.run(site_with(path, "c1", config=config()), [check])
    assert "does not answer" in report.not_checked[0]


def test_the_list_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.list_checks("human") == 0
    assert "vcpu-quotas" in capsys.readouterr().out
    verb.list_checks("json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [check.name for check in checks.CHECKS]
