"""What is known of a cluster on disk: one folder per name, so that another call can end it."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import psutil
from pydantic import BaseModel

from cluster.devcluster.layout import OWN_FOLDERS
from raypd.report import UsageError
from raypd.toolchain import cache_dir

# A cluster's own 10.x.0.0/16: the first of these that neither a cluster nor the host's routes use.
RANGES = range(77, 97)


class Known(BaseModel):
    """A process, told by when it began from another that has its pid later: in clock ticks since the
    boot, which a change of the machine's time leaves alone."""

    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> Known:
        return cls(pid=pid, ticks=_ticks(pid))

    def process(self) -> psutil.Process | None:
        """The process, if it lives."""
        try:
            return psutil.Process(self.pid) if _ticks(self.pid) == self.ticks else None
        except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
            return None


class State(BaseModel):
    """`holder` is the process that holds all namespaces, `machines` are process 1 of each machine."""

    name: str
    second: int
    holder: Known | None = None
    machines: dict[str, Known] = {}
    complete: bool = False

    @property
    def folder(self) -> Path:
        return folder(self.name)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def save(self) -> None:
        """Writes the state whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        half = self.folder / "state.json.part"
        half.write_text(self.model_dump_json(indent=2))
        half.rename(self.folder / "state.json")

    def process(self) -> psutil.Process | None:
        """The holder, if it lives."""
        return self.holder.process() if self.holder else None

    def roots(self) -> list[psutil.Process]:
        """What lives of the processes that all others of the cluster descend from, the holder first.
        One whose holder was killed in the wrong moment outlives it."""
        known = [*([self.holder] if self.holder else []), *self.machines.values()]
        return [process for one in known if (process := one.process())]

    def forget(self, patience: float = 20) -> None:
        """Removes the folder; the kernel may still be unmounting what lay in it."""
        deadline = time.monotonic() + patience
        while self.folder.exists():
            try:
                shutil.rmtree(self.folder)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def find(name: str) -> State | None:
    file = folder(name) / "state.json"
    return State.model_validate_json(file.read_text()) if file.exists() else None


def all_known() -> list[State]:
    return [s for file in sorted(_clusters().glob("*/state.json")) if (s := find(file.parent.name))]


def folder(name: str) -> Path:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name):
        raise UsageError(
            f"{name!r} is no name for a cluster: small letters, digits and dashes, 20 at most."
        )
    return _clusters() / name


def _clusters() -> Path:
    cache = cache_dir()
    if any(cache.is_relative_to(path) for path in OWN_FOLDERS):
        raise UsageError(
            f"{cache} cannot be seen in a node, which has its own {', '.join(OWN_FOLDERS)}:"
            " set RAYPD_CACHE to a folder elsewhere."
        )
    return cache / "devcluster" / "clusters"


def _ticks(pid: int) -> int:
    """When the process began: field 22 of proc(5)'s stat, counted after the name, which may hold
    anything."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
