"""The archives that images.py writes are what `docker save` writes."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from cluster.devcluster import images
from cluster.devcluster.images import Image


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("RAYPD_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF of a kind")
    monkeypatch.setattr(images.shutil, "which", lambda name: str(program))
    return images.pause()


def test_the_config_names_the_layer_by_its_hash(image):
    with tarfile.open(image.archive) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        config = archive.extractfile(entry["Config"]).read()
        (layer,) = entry["Layers"]
        digest = hashlib.sha256(archive.extractfile(layer).read()).hexdigest()
    assert entry["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert entry["RepoTags"] == [image.name]


def test_the_layer_holds_the_program_for_everyone(image):
    with (
        tarfile.open(image.archive) as archive,
        tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer,
    ):
        (member,) = layer.getmembers()
        assert layer.extractfile(member).read() == b"\x7fELF of a kind"
    assert member.mode == 0o755
    assert (member.uid, member.gid) == (0, 0)


def test_the_entrypoint_is_the_file_in_the_layer(image):
    with (
        tarfile.open(image.archive) as archive,
        tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer,
    ):
        (entry,) = json.load(archive.extractfile("manifest.json"))
        config = json.load(archive.extractfile(entry["Config"]))["config"]
        assert config["Entrypoint"][0].lstrip("/") in layer.getnames()


def test_the_tag_follows_the_content(image, tmp_path):
    assert images.pause() == image
    (tmp_path / "program").write_bytes(b"\x7fELF of another kind")
    assert images.pause().name != image.name
    assert images.pause().repository == image.repository
