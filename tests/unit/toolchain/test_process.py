"""Programs that are run for us: their output, their failure, and their end with ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from raypd.report import UsageError
from raypd.toolchain.process import progress, run


def test_output():
    assert run(["sh", "-c", "echo $WORD"], env={"WORD": "there"}) == "there\n"


def test_failure_says_what_the_program_said():
    with pytest.raises(UsageError, match=r"(?s)exit code 3.*no such flag"):
        run(["sh", "-c", "echo no such flag >&2; exit 3"])


def test_an_interrupt_ends_the_whole_group(tmp_path):
    code = (
        # A shell's background jobs, and all that they start, ignore interrupts.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from raypd.toolchain.process import run\n"
        "run(['sh', '-c', 'sleep 61 & echo $! > pids; echo $$ >> pids; wait'])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL)
    pids = tmp_path / "pids"
    for _ in range(100):
        if pids.exists() and pids.read_text().count("\n") == 2:
            break
        time.sleep(0.1)
    children = list(map(int, pids.read_text().split()))
    os.kill(parent.pid, signal.SIGINT)
    parent.wait(timeout=10)
    time.sleep(0.3)
    alive = [p for p in children if psutil.pid_exists(p) and psutil.Process(p).status() != "zombie"]
    assert alive == []


def test_progress_is_silent_when_quick_and_speaks_when_slow(capsys):
    with progress("Quick"):
        pass
    assert capsys.readouterr().err == ""
    with progress("Slow", quiet_seconds=0.1):
        time.sleep(0.4)
    assert "Slow: done in" in capsys.readouterr().err
