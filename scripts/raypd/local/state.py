"""What is known of a run: kept in the cache, so that another call can look at it and end it."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import uuid
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from raypd.local import processes
from raypd.report import UsageError
from raypd.toolchain import cache_dir


class State(BaseModel):
    """A local run. `folder` holds Ray's files and logs and goes with the run; `metrics` is the port
    with Prometheus metrics of each node and `nixl_metrics` that of its engine's NIXL, by node name;
    `groups` has the group of each node, `caches` the folders of the engines' caches. All ports are on 127.0.0.1."""

    name: str
    run_id: str
    folder: Path
    model_id: str
    model_source: str
    max_model_len: int
    caches: dict[str, str]
    disaggregated: bool
    backends: list[str]
    gcs_port: int
    dashboard_port: int
    http_port: int
    metrics: dict[str, int]
    nixl_metrics: dict[str, int]
    groups: dict[str, str]
    started: float = Field(default_factory=time.time)  # seconds since the epoch

    @property
    def endpoint(self) -> str:
        """Base URL for OpenAI clients."""
        return f"http://127.0.0.1:{self.http_port}/v1"

    @property
    def dashboard(self) -> str:
        """Base URL of Ray's dashboard and REST API."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    def processes(self) -> list[psutil.Process]:
        """What lives of it."""
        return processes.of_run(self.run_id, self.folder)

    def save(self) -> None:
        """Writes the state under its name."""
        _file(self.name).write_text(self.model_dump_json(indent=2))


def find(name: str) -> State | None:
    """The saved run of this name, alive or not."""
    file = _file(name)
    return State.model_validate_json(file.read_text()) if file.exists() else None


def need(name: str) -> State:
    """The saved run of this name, if any of its processes lives; UsageError if not."""
    state = find(name)
    if state is None or not state.processes():
        raise UsageError(
            f"no local run named {name!r} is up. Start one with `raypd local up --name {name}`."
        )
    return state


def new_run_id(name: str) -> str:
    """An id that no other run has or had."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def new_folder() -> Path:
    """An empty folder of a run. Its path is short: Ray puts sockets below it, and a socket's path
    may have 107 bytes, of which Ray takes 70."""
    return Path(tempfile.mkdtemp(prefix="raypd-", dir="/tmp"))


def end(state: State, keep_logs: bool = False) -> int:
    """Ends the run's processes, removes its files, and returns how many processes there were."""
    ended = processes.end(state.run_id, state.folder)
    processes.sweep_shared_memory(state.started)
    _file(state.name).unlink(missing_ok=True)
    if not keep_logs:
        shutil.rmtree(state.folder, ignore_errors=True)
    return ended


def _file(name: str) -> Path:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise UsageError(f"--name {name!r}: use up to 31 of a-z, 0-9 and -, as in my-run.")
    folder = cache_dir() / "local" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"
