"""`raypd lint` on values, on a manifest, and with an eksctl config."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest
import yaml

from raypd import yaml_text
from raypd.lint.verb import of_manifest, of_values
from raypd.render import ValueArguments, default_chart
from raypd.report import Report, UsageError
from unit.lint.sample import Sample

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "values").glob("*.yaml"))


def lint(*set_: str, files: list[Path] | None = None, chart: Path | None = None) -> Report:
    arguments = ValueArguments(files or [], list(set_), [], [], [])
    return of_values(chart or default_chart(), arguments)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_shipped_values_file_has_no_finding(path: Path) -> None:
    assert lint(files=[path]).findings == []


def test_schema_and_rules_of_the_chart_are_told_together() -> None:
    found = lint("prefill.replicass=2", "transport.efa.interfacesPerPod=3").findings
    assert [finding.code for finding in found] == ["RPD101", "RPD164"]


def test_behind_an_unknown_key_the_render_is_checked_all_the_same() -> None:
    report = lint("prefill.replicass=2", "decode.engineArgs.max_modl_len=4096")
    found = {finding.code: finding for finding in report.findings}
    assert found["RPD101"].path == "prefill.replicass"
    assert "`max_model_len`" in found["RPD301"].remedy


def test_a_refused_render_says_what_was_left_unchecked() -> None:
    report = lint("model.dtype=int8")
    assert [finding.code for finding in report.findings] == ["RPD104"]
    assert any("behind the render" in line for line in report.not_checked)


def test_the_model_in_the_charts_table_brings_its_rules() -> None:
    report = lint()
    assert not any("hybrid" in line for line in report.not_checked)


def test_a_manifest_needs_no_chart(tmp_path: Path) -> None:
    sample = Sample()
    rayservice = sample.rayservice
    rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(sample.serve_config)
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all([rayservice, {"kind": "ConfigMap"}]))
    report = of_manifest(path)
    assert report.findings == []
    assert any("schema" in line for line in report.not_checked)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: ConfigMap", "no RayService"),
        ("a: [", "not YAML"),
        ("kind: RayService\nspec: {serveConfigV2: {}}", "string of YAML"),
        ("kind: RayService\nspec: {serveConfigV2: 'a: ['}", "serveConfigV2"),
        ("kind: RayService\nspec: {serveConfigV2: '- a'}", "applications"),
    ],
)
def test_a_manifest_without_a_readable_rayservice_is_a_mistake_of_the_call(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "rendered.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        of_manifest(path)


def test_an_eksctl_config_is_checked_against_the_values(tmp_path: Path) -> None:
    config = yaml_text.load((ROOT / "eksctl" / "g6.yaml").read_text())
    for group in config["managedNodeGroups"]:
        group["labels"] = {"role": "something-else"}
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(config))
    arguments = ValueArguments([], [], [], [], [])
    report = of_values(default_chart(), arguments, eksctl=path)
    assert "RPD420" in [finding.code for finding in report.findings]
    assert not any("--eksctl" in line for line in report.not_checked)
    clean = of_values(default_chart(), arguments, eksctl=ROOT / "eksctl" / "g6.yaml")
    assert clean.findings == []


def test_a_template_that_falls_over_is_a_finding_and_not_a_traceback(tmp_path: Path) -> None:
    chart = tmp_path / "broken"
    shutil.copytree(default_chart(), chart)
    (chart / "templates" / "bad.yaml").write_text(
        textwrap.dedent("""
            a: {{ .Values.model.id.nothing }}
        """)
    )
    (finding,) = lint(chart=chart).findings
    assert finding.code == "RPD100"
    assert "bad.yaml" in finding.message
