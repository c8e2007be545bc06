"""All processes of a run, found by what each inherits, and ended.

Ray's children leave their parent (new sessions, workers of workers, vLLM's engine cores), so a tree
walk does not find them and `ray stop` does not end them. What stays with each is a variable in its
environment and its working folder. Some give themselves a title, which overwrites the environment
that the kernel shows; those are known by the folder.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil

MARK = "RAYPD_RUN_ID"
NODE_MARK = "RAYPD_NODE"
_GRACE_SECONDS = 4.0
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
    shared: set[Path] = set()
    while processes := of_run(run_id, folder, node):
        seen.update(process.pid for process in processes)
        shared.update(file for process in processes for file in _shared_memory(process))
        waited = time.monotonic() - begin
        if waited > _PATIENCE_SECONDS:
            raise RuntimeError(f"processes that do not end: {[p.pid for p in processes]}")
        for process in processes:
            try:
                process.terminate() if waited < _GRACE_SECONDS else process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(processes, timeout=_GRACE_SECONDS if waited < _GRACE_SECONDS else 1)
    for file in shared:
        file.unlink(missing_ok=True)
    return len(seen)


def _shared_memory(process: psutil.Process) -> list[Path]:
    """The segments in /dev/shm that the process maps. vLLM names its own at random, and a killed
    process does not take them away."""
    try:
        maps = Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return []
    found = {line.split(maxsplit=5)[5] for line in maps.splitlines() if "/dev/shm/" in line}
    return [Path(name) for name in found if not name.endswith("(deleted)")]
