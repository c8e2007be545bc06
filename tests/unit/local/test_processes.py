"""Every process of a run is found and ended, whatever it did to its parent or its title."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from raypd.local import processes

SLEEP = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
# Starts a child in a session of its own and ends: the child then belongs to init.
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
# As setproctitle does: the memory that the kernel shows as the environment is written over.
TITLED = (
    "import ctypes, time\n"
    "first = ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value\n"
    "pointers = ctypes.cast(first, ctypes.POINTER(ctypes.c_char_p))\n"
    "where = ctypes.cast(first, ctypes.POINTER(ctypes.c_void_p))\n"
    "i = 0\n"
    "while pointers[i] is not None:\n"
    "    ctypes.memset(where[i], 0, len(pointers[i])); i += 1\n"
    "time.sleep(60)"
)


@pytest.fixture
def start(tmp_path):
    """Starts Python code as a process of run "r" and node "n"; ends what is left."""
    started = []

    def run(code: str, node: str = "n") -> subprocess.Popen[bytes]:
        cwd = processes.node_folder(tmp_path, node)
        cwd.mkdir(parents=True, exist_ok=True)
        env = {"PATH": os.environ["PATH"], processes.MARK: "r", processes.NODE_MARK: node}
        started.append(subprocess.Popen([sys.executable, "-c", code], cwd=cwd, env=env))
        return started[-1]

    yield run
    processes.end("r", tmp_path)
    for process in started:
        process.kill()
        process.wait()


def _wait_for(count: int, folder, node=None) -> int:
    """The number of processes found, once it is `count` or five seconds have passed."""
    for _ in range(50):
        if len(processes.of_run("r", folder, node)) == count:
            break
        time.sleep(0.1)
    return len(processes.of_run("r", folder, node))


@pytest.mark.parametrize(
    "code", [SLEEP, DEAF, ORPHAN, TITLED], ids=["plain", "deaf", "orphan", "titled"]
)
def test_found_and_ended(start, tmp_path, code):
    start(code)
    time.sleep(0.5)
    assert _wait_for(1, tmp_path) == 1
    assert processes.end("r", tmp_path) == 1
    assert processes.of_run("r", tmp_path) == []


def test_one_node_alone(start, tmp_path):
    start(SLEEP, "prefill-0")
    other = start(SLEEP, "decode-0")
    assert _wait_for(2, tmp_path) == 2
    assert processes.end("r", tmp_path, "prefill-0") == 1
    assert other.poll() is None


def test_others_are_left_alone(start, tmp_path):
    mine = start(SLEEP)
    time.sleep(0.2)
    assert processes.end("another", tmp_path / "elsewhere") == 0
    assert mine.poll() is None


def test_what_killed_engines_left_in_shared_memory_is_swept(start, tmp_path):
    begin = time.time() - 1
    for name in ("psm_used", "psm_left", "sem.mp-left", "other"):
        (tmp_path / name).write_bytes(b"x" * 4096)
    code = (
        f"import mmap, time; f = open({str(tmp_path / 'psm_used')!r}, 'r+b');"
        "m = mmap.mmap(f.fileno(), 0); print(flush=True); time.sleep(60)"
    )
    start(code)
    time.sleep(1)
    assert processes.sweep_shared_memory(time.time() + 60, tmp_path) == []  # all older than that
    left = {file.name for file in processes.sweep_shared_memory(begin, tmp_path)}
    assert left == {"psm_left", "sem.mp-left"}
    assert (tmp_path / "psm_used").exists()
    assert (tmp_path / "other").exists()
