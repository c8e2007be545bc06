"""Made once, whole or not at all, by however many at the same time."""

from __future__ import annotations

import threading
import time

import pytest

from raypd.toolchain import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYPD_CACHE", str(tmp_path / "cache"))


def test_the_folder_follows_the_environment(tmp_path, monkeypatch):
    assert cache.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("RAYPD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "xdg" / "raypd"
    assert cache.cache_dir().is_dir()


@pytest.mark.parametrize("once", [cache.once, cache.once_in_place])
def test_made_once_by_many(once):
    made = []

    def make(path):
        time.sleep(0.1)
        made.append(path)
        path.mkdir()

    threads = [threading.Thread(target=once, args=("thing", "Making", make)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert once("thing", "Making", make).is_dir()


@pytest.mark.parametrize("once", [cache.once, cache.once_in_place])
def test_half_a_thing_is_never_used(once):
    def fail(path):
        path.mkdir()
        (path / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once("thing", "Making", fail)
    whole = once("thing", "Making", lambda path: path.mkdir())
    assert not (whole / "half").exists()
