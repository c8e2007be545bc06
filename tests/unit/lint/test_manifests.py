"""What lint says of manifests that people write by hand, in manifests/."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from raypd import yaml_text
from raypd.lint.verb import of_manifest
from raypd.render import UsageError, all_from_manifest, from_manifest

MANIFESTS = Path(__file__).with_name("manifests")

TOLD = {
    "right.yaml": set(),
    "by-file.yaml": {"RPD246"},
    "aggregated.json": {"RPD501"},
    "two-groups.yaml": {"RPD246", "RPD372", "RPD378", "RPD380", "RPD381"},
    "one-group.yaml": {
        *("RPD244", "RPD246", "RPD322", "RPD335", "RPD337", "RPD345", "RPD346", "RPD372"),
        *("RPD378", "RPD501", "RPD575", "RPD576"),
    },
}


@pytest.mark.parametrize("name", TOLD)
def test_the_findings_of_a_manifest(name: str) -> None:
    assert {finding.code for finding in of_manifest(MANIFESTS / name).findings} == TOLD[name]


def test_every_manifest_is_looked_at() -> None:
    assert {path.name for path in MANIFESTS.iterdir()} == set(TOLD)


def test_a_config_in_a_file_of_the_image_is_no_mistake_but_was_not_checked() -> None:
    told = of_manifest(MANIFESTS / "by-file.yaml").not_checked
    assert any("prefill_config" in line and "/configs/prefill.yaml" in line for line in told)


def test_a_hybrid_model_is_known_by_its_source(tmp_path: Path) -> None:
    manifest = (MANIFESTS / "right.yaml").read_text()
    path = tmp_path / "manifest.yaml"
    path.write_text(manifest.replace("VLLM_SSM_CONV_STATE_LAYOUT: DS", "OTHER: x"))
    assert {finding.code for finding in of_manifest(path).findings} == {"RPD361"}


def test_a_head_with_a_gpu_is_told(tmp_path: Path) -> None:
    paths = [
        f.path for f in of_manifest(MANIFESTS / "two-groups.yaml").findings if f.code == "RPD378"
    ]
    assert [path.rpartition(".")[2] for path in paths] == ["num-cpus", "num-gpus"]


def test_each_of_several_rayservices_is_checked_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    texts = [(MANIFESTS / name).read_text() for name in ("right.yaml", "by-file.yaml")]
    path.write_text("---\n".join(texts))
    findings = of_manifest(path).findings
    assert [f.path for f in findings] == ["RayService/from-files spec.upgradeStrategy.type"]
    with pytest.raises(UsageError, match="by-hand, from-files"):
        from_manifest(path.read_text(), "the file")


def test_a_list_stands_for_its_items() -> None:
    right = yaml_text.load((MANIFESTS / "right.yaml").read_text())
    text = yaml.safe_dump({"kind": "List", "items": [{"kind": "Secret"}, right, None]})
    (found,) = all_from_manifest(text, "the file")
    assert (found.name, len(found.manifests)) == ("by-hand", 2)


def test_a_ray_cluster_alone_is_told_of_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="RayCluster"):
        all_from_manifest("kind: RayCluster\nmetadata: {name: a}", "the file")
