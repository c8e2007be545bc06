"""All processes of a run, found by what each inherits, and ended.

Ray's children leave their parent (new sessions, workers of workers, vLLM's engine cores), so a tree
walk does not find them and `ray stop` does not end them. What stays with each is a variable in its
environment and its working folder. Some give themselves a title, which overwrites the environment
that the kernel shows; those are known by the folder.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "RAYPD_RUN_ID"
NODE_MARK = "RAYPD_NODE"
_SEGMENT = re.compile(r"(/\S*/(?:psm_|sem\.mp-)\S+)$", re.MULTILINE)
_GRACE_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0


def of_run(run_id: str, folder: Path, node: str | None = None) -> list[psutil.Process]:
    """The live processes of a run (of one Ray node of it), whose files are in `folder`."""
    return [p for p in psutil.process_iter() if _is_of(p, run_id, folder, node)]


def node_folder(folder: Path, node: str) -> Path:
    """The working folder of a node's processes."""
    return folder / "nodes" / node


def _is_of(process: psutil.Process, run_id: str, folder: Path, node: str | None) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        env = process.environ()
        if "PATH" in env:
            return env.get(MARK) == run_id and node in (None, env.get(NODE_MARK))
        place = Path(process.cwd().removesuffix(" (deleted)"))
        return place.is_relative_to(node_folder(folder, node) if node else folder)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


def end(run_id: str, folder: Path, node: str | None = None) -> int:
    """Ends every process of the run (or of one node of it) and returns how many there were.

    First asked (so that shared memory is given back), then killed; looked for again until a look
    finds none, since a supervisor may have started another meanwhile. Raises RuntimeError when
    some are still there after half a minute.
    """
    begin = time.monotonic()
    seen: set[int] = set()
    while processes := of_run(run_id, folder, node):
        seen.update(process.pid for process in processes)
        waited = time.monotonic() - begin
        if waited > _PATIENCE_SECONDS:
            raise RuntimeError(f"processes that do not end: {[p.pid for p in processes]}")
        for process in processes:
            try:
                process.terminate() if waited < _GRACE_SECONDS else process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(processes, timeout=_GRACE_SECONDS if waited < _GRACE_SECONDS else 1)
    return len(seen)


def sweep_shared_memory(since: float, folder: Path = Path("/dev/shm")) -> list[Path]:
    """Removes what engines left in shared memory, and returns it.

    vLLM's processes name their segments at random (Python's "psm_..." and "sem.mp-..."), and one
    that is killed does not take its own away. What is this user's, is not older than `since`
    (seconds since the epoch) and is mapped by no process any more was such a one's.
    """
    mapped = set()
    for process in psutil.process_iter():
        try:
            mapped |= set(_SEGMENT.findall(Path(f"/proc/{process.pid}/maps").read_text()))
        except OSError:
            continue  # ended meanwhile, or another user's, who cannot map our files
    left = []
    for file in [*folder.glob("psm_*"), *folder.glob("sem.mp-*")]:
        with suppress(FileNotFoundError):
            status = file.stat()
            if (status.st_uid, str(file) in mapped) == (os.geteuid(), False) and (
                status.st_ctime >= since
            ):
                file.unlink()
                left.append(file)
    return left
