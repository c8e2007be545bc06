"""Every values file, and everything turned on at once, on both Helms and against all schemas."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chart.rendering import CHART, ROOT, SITUATIONS, VALUES_FILES, run_helm
from raypd import yaml_text
from raypd.toolchain import binary, helm

each_situation = pytest.mark.parametrize("values", SITUATIONS.values(), ids=SITUATIONS)


def test_all_conform_to_kubernetes_and_the_crds(render, conforms):
    # Together, because reading the schemas takes the most time.
    conforms("\n".join(render.text(values) for values in SITUATIONS.values()))


@each_situation
def test_same_bytes_whatever_renders_it(render, values):
    """Neither Helm's version, nor the cluster's APIs, nor its version, nor a second try matters."""
    reference = render.afresh(values, program=helm(4))
    assert render.afresh(values, program=helm(4)) == reference
    assert render.afresh(values, program=helm(3)) == reference
    apis = ("--api-versions", "monitoring.coreos.com/v1", "--api-versions", "ray.io/v1")
    assert render.afresh(values, *apis, "--kube-version", "1.32.0") == reference


@each_situation
def test_no_large_number_in_scientific_notation(render, values):
    text = render.text(values)
    for document in yaml_text.load_all(text):
        if document and document["kind"] != "ConfigMap":
            assert "e+" not in yaml.safe_dump(document)


@pytest.mark.parametrize("file", VALUES_FILES, ids=lambda f: f.stem)
def test_helm_lint(each_helm, file):
    run_helm(each_helm, "lint", "--strict", str(CHART), "-f", str(file))


def test_chart_testing_lint(tmp_path: Path):
    """chart-testing renders and lints the chart once for every file in its folder `ci`."""
    chart = shutil.copytree(CHART, tmp_path / "charts" / "ray-pd-llm")
    (chart / "ci").mkdir()
    for file in VALUES_FILES:
        shutil.copy(file, chart / "ci" / f"{file.stem}-values.yaml")
    configuration = ROOT / "tests" / "chart" / "chart-testing"
    programs = f"{helm(3).parent}:{Path(sys.executable).parent}"
    (tmp_path / "helm").symlink_to(helm(3))
    done = subprocess.run(
        [
            *(binary("ct"), "lint", "--charts", str(chart)),
            *("--check-version-increment=false", "--validate-maintainers=false"),
            *("--lint-conf", str(configuration / "yamllint.yaml")),
            *("--chart-yaml-schema", str(configuration / "chart.yaml")),
        ],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{programs}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Linting chart with values file") == len(VALUES_FILES)


@pytest.mark.parametrize("file", VALUES_FILES, ids=lambda f: f.stem)
def test_begins_with_what_it_is_for_and_how_to_use_it(file):
    text = file.read_text()
    assert text.startswith("# ")
    assert str(file.relative_to(ROOT)) in text or "./scripts/quickstart" in text
