"""Saved runs: by name, in the cache, gone with the run."""

from __future__ import annotations

import pytest

from raypd.local import state
from raypd.report import UsageError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYPD_CACHE", str(tmp_path))


def _run(folder, name="a"):
    return state.State(
        name=name,
        run_id=state.new_run_id(name),
        folder=folder,
        model_id="m",
        model_source="/m",
        max_model_len=1024,
        caches={},
        disaggregated=True,
        backends=["UCX"],
        gcs_port=1,
        dashboard_port=2,
        http_port=3,
        metrics={"head": 4},
        nixl_metrics={},
        groups={"head": "head"},
    )


def test_saved_found_and_ended(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run = _run(folder)
    run.save()
    assert state.find("a") == run
    assert state.end(run) == 0
    assert state.find("a") is None
    assert not folder.exists()


def test_logs_stay_when_asked(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    state.end(_run(folder), keep_logs=True)
    assert folder.exists()


def test_a_run_without_processes_is_not_up(tmp_path):
    _run(tmp_path).save()
    with pytest.raises(UsageError, match="raypd local up"):
        state.need("a")


@pytest.mark.parametrize("name", ["", "../x", "A", "a" * 40])
def test_names_are_file_names(name):
    with pytest.raises(UsageError, match="--name"):
        state.find(name)
