"""The packaged chart: what is in it, and how it behaves as a subchart."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import yaml

from chart.rendering import CHART, Refused, run_helm
from raypd import yaml_text


def test_the_package_holds_the_schema_and_not_its_source(package):
    with tarfile.open(package) as archive:
        names = {name.removeprefix("ray-pd-llm/") for name in archive.getnames()}
        schema = json.load(archive.extractfile("ray-pd-llm/values.schema.json"))
    assert {
        "values.yaml",
        "values.schema.json",
        "files/instances.yaml",
        "templates/NOTES.txt",
    } <= names
    assert "values.schema.yaml" not in names
    assert schema == json.loads((CHART / "values.schema.json").read_text())


@pytest.fixture
def parent(package: Path, tmp_path: Path) -> Path:
    """A chart that takes this one as a conditional dependency under the name `llm`."""
    chart = tmp_path / "parent"
    (chart / "charts").mkdir(parents=True)
    (chart / "charts" / package.name).write_bytes(package.read_bytes())
    (chart / "Chart.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v2",
                "name": "parent",
                "version": "1.0.0",
                "dependencies": [
                    {"name": "ray-pd-llm", "version": "*", "condition": "ray-pd-llm.enabled"}
                ],
            }
        )
    )
    (chart / "values.yaml").write_text(
        yaml.safe_dump(
            {
                "global": {"region": "us-east-1"},
                "ray-pd-llm": {
                    "enabled": True,
                    "model": {"id": "chat"},
                    "prefill": {"env": {"A": 1}},
                },
            }
        )
    )
    return chart


def template(helm: Path, chart: Path, *options: str) -> list[dict]:
    text = run_helm(helm, "template", "shop", str(chart), *options)
    return [m for m in yaml_text.load_all(text) if m]


def test_subchart_renders_with_globals_and_condition(each_helm, parent):
    manifests = template(each_helm, parent)
    (service,) = [m for m in manifests if m["kind"] == "RayService"]
    assert "model_id: chat" in service["spec"]["serveConfigV2"]
    assert service["metadata"]["name"] == "shop-ray-pd-llm"
    assert template(each_helm, parent, "--set", "ray-pd-llm.enabled=false") == []


def test_subchart_still_refuses_typos_at_every_level(each_helm, parent):
    for option in ("ray-pd-llm.modle.id=x", "ray-pd-llm.prefill.replicaz=2"):
        with pytest.raises(Refused, match=r"modle|replicaz"):
            template(each_helm, parent, "--set", option)


def test_subchart_survives_a_null_from_its_parent(each_helm, parent):
    for path in ("transport", "cache.hostPath", "monitoring", "prefill.resources", "head"):
        manifests = template(each_helm, parent, "--set", f"ray-pd-llm.{path}=null")
        assert any(m["kind"] == "RayService" for m in manifests)


def test_a_new_version_of_the_chart_changes_no_pod(package, each_helm, tmp_path):
    """KubeRay takes a changed pod template for a new cluster, which needs every GPU twice."""
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path, filter="data")
    chart = tmp_path / "ray-pd-llm"
    before = template(each_helm, chart)
    declared = yaml_text.load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(
        yaml.safe_dump(declared | {"version": "9.9.9", "appVersion": "9"})
    )
    specs = [
        [m["spec"] for m in manifests if m["kind"] == "RayService"]
        for manifests in (before, template(each_helm, chart))
    ]
    assert specs[0] == specs[1]
