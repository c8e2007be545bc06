"""The lock files: complete, hashed, and free of any host or machine."""

from __future__ import annotations

import re
import tomllib

import pytest

from raypd.toolchain.wheels import LOCKS, lock_file

NAMES = ["tools", "cpu", "go", "helm"]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_pinned_and_hashed(name):
    entries = re.split(r"\n(?=\S)", lock_file(name).read_text().strip())
    assert entries
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("name", NAMES)
def test_no_host_and_no_path(name):
    text = lock_file(name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*(--index-url|--extra-index-url|--find-links|-f|-i)\b", text, re.M)


def test_the_tools_lock_covers_pyproject():
    project = tomllib.loads((LOCKS.parent / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    locked = set(re.findall(r"^([\w.-]+)==", lock_file("tools").read_text(), re.M))
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in wanted}
    assert names <= locked


def test_the_cpu_lock_has_what_the_images_versions_ask_for():
    locked = lock_file("cpu").read_text()
    for line in (LOCKS / "cpu.in").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = re.sub(r"\[.*\]", "", line).split("==")
            assert f"\n{name}=={version} " in f"\n{locked}"
