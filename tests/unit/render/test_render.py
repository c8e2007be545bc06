"""Rendering: Helm's own text, Helm's own merge of values, and refusals as findings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from raypd import toolchain
from raypd.render import RenderRefused, default_chart, from_manifest, is_kept, render
from raypd.render.helm import ValueArguments, merged_values
from raypd.render.refusal import chart_findings
from raypd.report import UsageError

CHART = default_chart()


@pytest.fixture(scope="module", params=[3, 4], ids=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> Path:
    return toolchain.helm(request.param)


def arguments(*set_: str, **others: list) -> ValueArguments:
    return ValueArguments(set_=list(set_), **others)


def test_the_text_is_what_helm_prints(helm: Path) -> None:
    rendered = render(CHART, ValueArguments(set_=["prefill.replicas=2"]), helm=helm)
    printed = subprocess.run(
        [helm, "template", "llm", CHART, "--namespace", "inference", "--set", "prefill.replicas=2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert rendered.text == printed
    assert rendered.rayservice in rendered.manifests


def test_release_and_namespace_are_helms(helm: Path) -> None:
    rendered = render(CHART, ValueArguments(), release="qwen", namespace="serving", helm=helm)
    assert rendered.rayservice["metadata"]["name"].startswith("qwen")
    assert rendered.rayservice["metadata"]["namespace"] == "serving"


def test_the_serve_config_is_parsed(helm: Path) -> None:
    (application,) = render(CHART, ValueArguments(), helm=helm).serve_config["applications"]
    assert application["import_path"] == "ray.serve.llm:build_pd_openai_app"


def test_a_packaged_chart_renders_and_merges_like_the_folder(helm: Path, tmp_path: Path) -> None:
    subprocess.run(
        [helm, "package", CHART, "--destination", tmp_path],
        check=True,
        capture_output=True,
        timeout=60,
    )
    (package,) = tmp_path.glob("*.tgz")
    assert (
        render(package, ValueArguments(), helm=helm).text
        == render(CHART, ValueArguments(), helm=helm).text
    )
    assert merged_values(package, arguments(), helm) == merged_values(CHART, arguments(), helm)
    with pytest.raises(RenderRefused) as refused:
        render(package, ValueArguments(set_=["prefill.replicass=2"]), helm=helm)
    assert refused.value.findings[0].code == "RPD101"


def test_values_are_merged_by_helm_itself(helm: Path, tmp_path: Path) -> None:
    """Files in order, then the --set family; null takes a key away; strings stay strings."""
    first, second, text = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "note.txt"
    first.write_text("model: {id: one, maxModelLen: 1000000, env: {A: x}}\n")
    second.write_text("model: {id: two, env: {A: null}}\n")
    text.write_text("a: [not: yaml")
    values = merged_values(
        CHART,
        arguments(
            "prefill.nodeSelector.role=null",
            values=[first, second],
            set_string=["image.tag=2.10"],
            set_json=['decode.env={"N": {"value": "1"}}'],
            set_file=[f"model.revision={text}"],
        ),
        helm,
    )
    assert values["model"]["id"] == "two"
    assert values["model"]["maxModelLen"] == 1000000
    assert values["model"]["env"] == {"A": None}  # nothing of the defaults to take away
    assert "role" not in values["prefill"]["nodeSelector"]
    assert values["image"]["tag"] == "2.10"
    assert values["decode"]["env"] == {"N": {"value": "1"}}
    assert values["model"]["revision"] == "a: [not: yaml"


def test_merged_values_come_back_even_when_the_schema_refuses_them(helm: Path) -> None:
    assert merged_values(CHART, arguments("nonsense.a=1"), helm)["nonsense"] == {"a": 1}


def test_a_schema_violation_has_an_exact_path_on_either_helm(helm: Path) -> None:
    with pytest.raises(RenderRefused) as refused:
        render(CHART, ValueArguments(set_=["decode.tolerations[0].efect=NoSchedule"]), helm=helm)
    paths = {finding.path: finding.code for finding in refused.value.findings}
    assert paths["decode.tolerations[0].efect"] == "RPD101"


def test_all_broken_rules_of_the_chart_come_back_at_once(helm: Path) -> None:
    with pytest.raises(RenderRefused) as refused:
        render(
            CHART,
            ValueArguments(set_=["transport.efa.interfacesPerPod=3", "placement.sameZone=false"]),
            helm=helm,
        )
    codes = [finding.code for finding in refused.value.findings]
    assert {"RPD131", "RPD164"} <= set(codes)
    assert len(codes) == len(set(codes))
    assert all(finding.remedy for finding in refused.value.findings)


@pytest.mark.parametrize("values", ["a: [", "- a\n- b\n"])
def test_a_values_file_that_is_no_yaml_mapping_is_a_mistake_of_the_call(
    helm: Path, tmp_path: Path, values: str
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(values)
    with pytest.raises(UsageError, match=r"values\.yaml"):
        render(CHART, ValueArguments([path]), helm=helm)


@pytest.mark.parametrize("kind", ["text", "folder"])
def test_a_chart_that_is_none_is_a_mistake_of_the_call(
    helm: Path, tmp_path: Path, kind: str
) -> None:
    chart = tmp_path / "chart.tgz"
    chart.mkdir() if kind == "folder" else chart.write_text("no archive")
    with pytest.raises(UsageError, match="Helm cannot use"):
        render(chart, ValueArguments(), helm=helm)


def test_rules_are_read_out_of_helms_message() -> None:
    message = (
        "execution error at (x/templates/validate.yaml:1:3): \n\nThe values cannot work "
        "(2 problems):\n\n[RPD133] transport.ports: they overlap (20000 to 20003). Instead: "
        "decode: 20004 or higher\n[RPD110] model.kind: nothing is known about it. Instead: dense "
        "or hybrid\n"
    )
    first, second = chart_findings(message)
    assert (first.code, first.path) == ("RPD133", "transport.ports")
    assert first.message == "they overlap (20000 to 20003)."
    assert first.remedy == "decode: 20004 or higher"
    assert (second.code, second.remedy) == ("RPD110", "dense or hybrid")


def test_yaml_that_means_nothing_special_to_kubernetes_is_read() -> None:
    """A plain `=` is a value of its own in YAML 1.1, and Helm prints it for an empty selector."""
    text = "kind: RayService\nspec: {serveConfigV2: 'a: 1'}\n---\nkind: ConfigMap\ndata: {a: =}\n"
    assert from_manifest(text, "here").manifests[1]["data"] == {"a": "="}


@pytest.mark.parametrize(
    ("annotations", "kept"),
    [
        ({"helm.sh/resource-policy": "keep"}, True),
        ({"helm.sh/resource-policy": "Keep"}, True),  # Helm reads it in any case
        ({"helm.sh/resource-policy": "delete"}, False),
        ({"other": "keep"}, False),
        (None, False),
        ([], False),
    ],
)
def test_what_helm_keeps(annotations, kept):
    assert is_kept({"metadata": {"name": "a", "annotations": annotations}}) is kept
    assert not is_kept({"metadata": None})
