"""A cluster's record on disk, and the process that it names."""

from __future__ import annotations

import os

import psutil
import pytest

from cluster.devcluster import state
from cluster.devcluster.state import Known, State
from raypd.report import UsageError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYPD_CACHE", str(tmp_path))


def _here(**changes) -> State:
    return State(**{"name": "a", "second": 77, "holder": Known.of(os.getpid()), **changes})


def test_what_is_saved_is_found():
    saved = _here(machines={"system": Known(pid=5, ticks=6)})
    saved.save()
    assert state.find("a") == saved
    assert state.all_known() == [saved]


def test_nothing_is_known_of_another_name():
    assert state.find("b") is None


def test_the_holder_is_found_while_it_lives():
    assert _here().process() == psutil.Process()


def test_a_pid_that_is_used_again_is_not_the_holder():
    assert _here(holder=Known(pid=os.getpid(), ticks=1)).process() is None


def test_machines_that_outlived_the_holder_are_found():
    left = _here(
        holder=Known(pid=os.getpid(), ticks=1),
        machines={"system": Known.of(os.getppid()), "gpu-a": Known(pid=2**22, ticks=1)},
    )
    assert left.roots() == [psutil.Process(os.getppid())]


def test_before_the_first_process_there_is_no_holder():
    assert State(name="a", second=77).process() is None


def test_forgetting_removes_the_folder():
    saved = _here()
    saved.save()
    saved.forget()
    assert not saved.folder.exists()
    assert state.all_known() == []


@pytest.mark.parametrize("name", ["", "Dev", "../dev", "1st", "a" * 21])
def test_names_that_are_no_folder_or_cgroup_are_refused(name):
    with pytest.raises(UsageError, match="no name for a cluster"):
        state.folder(name)


def test_a_cache_that_nodes_cannot_see_is_refused(monkeypatch):
    monkeypatch.setattr(state, "cache_dir", lambda: state.Path("/var/lib/raypd"))
    with pytest.raises(UsageError, match="set RAYPD_CACHE"):
        state.folder("dev")
