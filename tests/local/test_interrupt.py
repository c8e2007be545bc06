"""A signal at any moment leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from raypd.local import state

NAME = "test-interrupt"


@pytest.mark.parametrize(
    ("number", "seconds"), [(signal.SIGINT, 0.0), (signal.SIGTERM, 4.0)], ids=["int", "term"]
)
def test_nothing_is_left(tmp_path, number, seconds):
    """The signal comes `seconds` after the first Ray node was started."""
    output = (tmp_path / "out").open("wb")
    command = [sys.executable, "-m", "raypd", "local", "quickstart", "--name", NAME]
    process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    run = None
    for _ in range(600):
        run = state.find(NAME)
        if run is not None and run.processes():
            break
        assert process.poll() is None, (tmp_path / "out").read_text()
        time.sleep(0.1)
    assert run is not None
    time.sleep(seconds)
    os.kill(process.pid, number)
    assert process.wait(timeout=60) == 130
    assert run.processes() == []
    assert not run.folder.exists()
    assert state.find(NAME) is None
