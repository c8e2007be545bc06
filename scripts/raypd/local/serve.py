"""Ray Serve over its REST API, as KubeRay uses it: put the config, then read how it stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from raypd import engine_log
from raypd.local.plan import HOST
from raypd.local.state import State
from raypd.local.web import client
from raypd.report import UsageError

_URL = "/api/serve/applications/"


class EngineFailed(Exception):
    """The application cannot come up; the message is the engine's own first error."""


@dataclass(frozen=True)
class Replica:
    """One replica: `deployment` as "Decode:tiny-qwen3", `node_id` Ray's, `state` as "RUNNING"."""

    deployment: str
    replica_id: str
    node_id: str
    pid: int | None
    state: str


@dataclass(frozen=True)
class Standing:
    """How the application stands: `status` as "DEPLOYING" or "RUNNING", `message` Serve's words,
    `deployments` the status and message of each, `replicas` all of them."""

    status: str
    message: str
    deployments: dict[str, tuple[str, str]]
    replicas: list[Replica]


def deploy(state: State, serve_config: Mapping[str, Any]) -> None:
    """Starts Serve with one loopback proxy on the run's port, then puts the config unchanged.

    Serve takes its HTTP options once, when it starts, and keeps them; a first put without
    applications is where they can be given without touching the config. Raises UsageError with
    Serve's words when the config is refused.
    """
    options = {**(serve_config.get("http_options") or {}), "host": HOST, "port": state.http_port}
    empty = {"proxy_location": "HeadOnly", "http_options": options, "applications": []}
    for config in (empty, serve_config):
        answer = client().put(state.dashboard + _URL, json=dict(config), timeout=120)
        if not answer.is_success:
            raise UsageError(
                f"Ray Serve refuses the rendered serve config (HTTP {answer.status_code}):\n"
                f"{answer.text.strip()[-3000:]}"
            )


def standing(state: State) -> Standing:
    """The run's application now. Raises httpx.HTTPError when the dashboard does not answer."""
    answer = client().get(state.dashboard + _URL)
    answer.raise_for_status()
    applications = answer.json()["applications"]
    if not applications:
        return Standing("NOT_STARTED", "", {}, [])
    application = next(iter(applications.values()))
    deployments = application["deployments"]
    replicas = [
        Replica(name, r["replica_id"], r.get("node_id") or "", r.get("pid"), r["state"])
        for name, deployment in deployments.items()
        for r in deployment["replicas"]
    ]
    statuses = {name: (d["status"], d["message"]) for name, d in deployments.items()}
    return Standing(application["status"], application["message"], statuses, replicas)


def wait_until_running(
    state: State, seconds: float, check: Callable[[], None], show: Callable[[Standing], None]
) -> Standing:
    """Polls until the application runs; `show` gets every look, `check` may raise meanwhile.

    Raises EngineFailed with the first real error as soon as a replica fails: Serve would try three
    times, which takes minutes and ends with the same error.
    """
    deadline = time.monotonic() + seconds
    now: Standing | None = None
    while time.monotonic() < deadline:
        check()
        try:
            now = standing(state)
        except httpx.HTTPError:
            time.sleep(1)
            continue
        show(now)
        if now.status == "RUNNING":
            return now
        if error := first_error(now, state.folder):
            raise EngineFailed(error)
        time.sleep(1)
    last = f"{now.status}: {now.message} {now.deployments}" if now else "no answer from Serve"
    raise EngineFailed(
        f"not running after {seconds:.0f} s and no error in sight. Last seen: {last}"
    )


def first_error(now: Standing, folder: Path) -> str | None:
    """The first real error behind a failing application, None while nothing has failed."""
    failed = [
        f"{name}: {message}"
        for name, (status, message) in now.deployments.items()
        if status in ("UNHEALTHY", "DEPLOY_FAILED") or "Traceback" in message
    ]
    if now.status == "DEPLOY_FAILED" or failed:
        words = "\n".join(failed) or now.message
        return engine_error(folder) or engine_log.last_exception(words)
    return None


def engine_error(folder: Path) -> str | None:
    """The earliest exception that an engine's processes wrote to their logs, and which log it was."""
    logs = sorted(folder.glob("ray/*/session_2*/logs/worker-*.*"))
    found = engine_log.first_error((str(log), log.read_text(errors="replace")) for log in logs)
    return f"{found[0]}\n(from {found[1]})" if found else None
