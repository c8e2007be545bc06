"""What an end does before it loads anything: it leaves an engine beside it the memory that it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from raypd.bench.ends import WORKER

MIB = 1 << 20


def ended(tmp_path: Path, limit: str, used: int, inactive: int) -> str:
    """The last words of a worker in a container of that memory, with no torch to load."""
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {inactive * MIB}\nslab 2\n")
    source = WORKER.read_text()
    program = source.replace('Path("/sys/fs/cgroup")', f"Path({str(tmp_path)!r})").replace(
        "import numpy as np", "sys.exit('it goes on')"
    )
    assert program.count(str(tmp_path)) == program.count("it goes on") == 1
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20
    )
    return done.stderr.strip()


def test_where_the_engine_has_nearly_all_of_it_nothing_is_loaded(tmp_path: Path) -> None:
    assert ended(tmp_path, str(4096 * MIB), 4000, 100) == (
        "the container has 196 MiB left of its memory limit, and this takes 1024 MiB"
    )


@pytest.mark.parametrize(
    ("limit", "used", "inactive"),
    [("max", 4000, 0), (str(8192 * MIB), 4000, 0), (str(4096 * MIB), 4000, 2000)],
)
def test_where_there_is_room_it_goes_on(
    tmp_path: Path, limit: str, used: int, inactive: int
) -> None:
    assert ended(tmp_path, limit, used, inactive) == "it goes on"
