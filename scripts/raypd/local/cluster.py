"""Ray nodes as processes: one supervised `ray start --block` for each node of the plan."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import httpx

from raypd.local import processes
from raypd.local.plan import HEAD_PORTS, HOST, PORTS, NodePlan, Plan
from raypd.local.ports import free_ports, free_ranges
from raypd.local.processes import MARK, NODE_MARK
from raypd.local.state import State
from raypd.local.web import client
from raypd.report import UsageError
from raypd.toolchain import runtime_environment, runtime_python

_INSIDE = Path(__file__).with_name("inside")  # what the Pythons of a run find on their path
_REST = _INSIDE / "rest"  # and those of engines that have no GPU
_ENGINE_PORTS = 20  # of a node, from its "engine-port" on
START_SECONDS = 240  # of a node; a quiet machine needs 10
MAX_RESTARTS = 2
_T = TypeVar("_T")
# Passed on from the caller. Everything else stays outside, as it would with a container: a proxy
# variable or somebody's VLLM_ setting must not change what the render says.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER")
_OWN_ENV = {
    # Counters reach the metrics port each second: proof right after an answer needs that.
    "RAY_metrics_report_interval_ms": "1000",
    # A node would start one idle worker for each CPU that it announces, and two cores have to run
    # what pods run on eight.
    "RAY_prestart_worker_first_driver": "0",
    # Ray gives a module of its dashboard 30 s to start and then goes on without a dashboard.
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "150",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Engines of one machine need no other interface, and listen on no other.
    "UCX_NET_DEVICES": "lo",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
}

_HAPROXY = "RAY_SERVE_ENABLE_HA_PROXY"
_HAPROXY_PORTS = {
    "haproxy-stats": "RAY_SERVE_HAPROXY_STATS_PORT",
    "haproxy-metrics": "RAY_SERVE_HAPROXY_METRICS_PORT",
}
_HAPROXY_FILES = {
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "haproxy.cfg",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "admin.sock",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "server-state",
    "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": "metrics.sock",
}
_HAPROXY_CONNECTIONS = (
    "1000"  # it wants two and a half file handles for each, and a shell may have few
)


class RayNode:
    """A node that is started and, as a pod's container is, started again when it did not come up."""

    def __init__(self, plan: NodePlan, ports: Mapping[str, int], state: State) -> None:
        self.plan = plan
        self._ports = ports
        self._state = state
        self._log = state.folder / "logs" / f"{plan.name}.log"
        self._restarts = 0
        self._process = self._launch()

    def check(self) -> None:
        """Starts the node again when it has ended, as a pod's container is.

        Ray's own limit for a node's start is 30 s, which a very busy machine can reach. The third
        end raises UsageError with the end of the node's log.
        """
        if self._process.poll() is None:
            return
        if self._restarts < MAX_RESTARTS:
            self._restarts += 1
            processes.end(self._state.run_id, self._state.folder, self.plan.name)
            self._process = self._launch()
            return
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        raise UsageError(
            f"the Ray node {self.plan.name} ended {MAX_RESTARTS + 1} times, the last time with code"
            f" {self._process.returncode}. Its last words: {' '.join(last)}\n"
            f"{_fatal(self._state.folder)}(from {self._log})"
        )

    def _launch(self) -> subprocess.Popen[bytes]:
        line, env = command(self.plan, self._ports, self._state)
        cwd = processes.node_folder(self._state.folder, self.plan.name)
        cwd.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as output:
            return subprocess.Popen(
                line,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for raypd, which then ends the run in order
            )


def _fatal(folder: Path) -> str:
    """What a raylet wrote when it could not go on: `ray start` only says that it timed out."""
    for log in sorted(folder.glob("ray/*/session_2*/logs/raylet.out")):
        for line in log.read_text(errors="replace").splitlines():
            if "Check failed" in line or " C " in line[:60]:
                return f"{line.strip()}\n"
    return ""


def ports_for(plan: Plan) -> dict[str, dict[str, int]]:
    """A free port for every port option of every node, by node name and option; and besides, for
    the head its "http-port" and HAProxy's own ports where that is used, for the others the "nixl-port"
    of their telemetry and "engine-port", from which on their engine looks for free ones."""
    wanted = {
        node.name: [p for p in PORTS if node.group == "head" or p not in HEAD_PORTS]
        for node in plan.nodes
    }
    for name, options in wanted.items():
        options.append("http-port" if name == "head" else "nixl-port")
    if plan.nodes[0].env.get(_HAPROXY) == "1":
        wanted["head"] += _HAPROXY_PORTS
    ports = iter(free_ports(sum(map(len, wanted.values()))))
    found = {name: {option: next(ports) for option in options} for name, options in wanted.items()}
    for node, first in zip(
        plan.nodes[1:], free_ranges(len(plan.nodes), _ENGINE_PORTS), strict=False
    ):
        found[node.name]["engine-port"] = first
    return found


def start(plan: Plan, ports: Mapping[str, Mapping[str, int]], state: State) -> Iterator[RayNode]:
    """Starts the head, waits for its GCS as the init container of a pod does, then starts the
    others, all at once, and waits until the head's dashboard answers.

    Yields each node as soon as it is started, so that the caller can end what is there.
    """
    (state.folder / "logs").mkdir(exist_ok=True)
    head, *workers = plan.nodes
    nodes = [RayNode(head, ports["head"], state)]
    yield nodes[0]
    _poll(nodes, state, lambda: _gcs_listens(state), "start Ray's GCS")
    for worker in workers:
        nodes.append(RayNode(worker, ports[worker.name], state))
        yield nodes[-1]
    _poll(nodes, state, lambda: head.name in node_names(state).values(), "open Ray's dashboard")


def wait_until_all_joined(nodes: list[RayNode], state: State) -> dict[str, str]:
    """Waits for every node in Ray's own list; returns Ray's node id for each node name."""
    return _poll(nodes, state, lambda: _joined(nodes, state), "join the Ray cluster")


def node_names(state: State) -> dict[str, str]:
    """Node name for each of Ray's node ids, as Ray's state API lists the live ones."""
    answer = client().get(f"{state.dashboard}/api/v0/nodes", params={"detail": 1})
    answer.raise_for_status()
    rows = answer.json()["data"]["result"]["result"]
    return {row["node_id"]: row["node_name"] for row in rows if row["state"] == "ALIVE"}


def _joined(nodes: list[RayNode], state: State) -> dict[str, str] | None:
    ids = {name: node_id for node_id, name in node_names(state).items()}
    return ids if {node.plan.name for node in nodes} <= ids.keys() else None


def _gcs_listens(state: State) -> bool:
    with suppress(OSError), socket.create_connection((HOST, state.gcs_port), timeout=1):
        return True
    return False


def _poll(nodes: list[RayNode], state: State, look: Callable[[], _T | None], what: str) -> _T:
    """What `look` finds as soon as it finds something, while all nodes live."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for node in nodes:
            node.check()
        with suppress(httpx.HTTPError):  # not up yet; the node itself was just seen alive
            if found := look():
                return found
        time.sleep(0.5)
    names = ", ".join(node.plan.name for node in nodes)
    raise UsageError(
        f"{names} did not {what} within {START_SECONDS} s. Look into {state.folder / 'logs'};"
        " a machine that is busy with other work is the usual reason."
    )


def command(
    node: NodePlan, ports: Mapping[str, int], state: State
) -> tuple[list[str], dict[str, str]]:
    """The command line and the whole environment of a node."""
    python = runtime_python()
    line = [str(python), str(_INSIDE / "loopback.py"), "start", "--block", "--disable-usage-stats"]
    line += ["--node-ip-address", HOST, "--node-name", node.name]
    # A folder for each, as pods have: Ray takes the next free name for a socket without a lock, so
    # that two nodes that start at the same time in one folder get the same, and one never comes up.
    line += ["--temp-dir", str(state.folder / "ray" / node.name)]
    if node.group == "head":
        # There is no cluster here for Ray's autoscaler ("monitor") to start anything in.
        line += ["--head", "--dashboard-host", HOST, "--no-monitor"]
    else:
        line += ["--address", f"{HOST}:{state.gcs_port}"]
    for option, port in ports.items():
        if option in PORTS:
            line += [f"--{option}", str(port)]
    for option, text in node.options.items():
        line += [f"--{option}", text] if text != "" else [f"--{option}"]
    return line, _environment(node, ports, state, python)


def _environment(
    node: NodePlan, ports: Mapping[str, int], state: State, python: Path
) -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # The environment's own programs first, as in an image: Ray starts "python", torch "ninja".
    passed_on["PATH"] = f"{python.parent}{os.pathsep}{passed_on.get('PATH', os.defpath)}"
    mounted = mount(node, state)
    env = {name: _moved(text, node, mounted) for name, text in node.env.items()}
    inside = [str(_INSIDE)] if node.gpus else [str(_INSIDE), str(_REST)]
    paths = [*inside, *env.get("PYTHONPATH", "").split(os.pathsep)]
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        MARK: state.run_id,
        NODE_MARK: node.name,
        "VLLM_NIXL_SIDE_CHANNEL_HOST": side_channel_address(state.run_id),
    }
    if "engine-port" in ports:
        own["VLLM_PORT"] = str(ports["engine-port"])
        # Engines with GPUs look for the port of torch's store from 100 after this one on (vLLM 0.26,
        # v1/executor/ray_executor_v2.py); unset, all of a machine take port 100 at the same time.
        own["VLLM_DP_MASTER_PORT"] = str(ports["engine-port"] + _ENGINE_PORTS // 2 - 100)
    if node.env.get(_HAPROXY) == "1":
        # Its files lie in /tmp and its ports are fixed unless told otherwise, and a container has both alone.
        folder = state.folder / "haproxy"
        folder.mkdir(exist_ok=True)
        own |= {
            **{
                variable: str(ports[option])
                for option, variable in _HAPROXY_PORTS.items()
                if option in ports
            },
            **{variable: str(folder / name) for variable, name in _HAPROXY_FILES.items()},
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
            "RAY_SERVE_HAPROXY_MAXCONN": _HAPROXY_CONNECTIONS,
        }
    if node.name in state.nixl_metrics:
        own |= {
            "NIXL_TELEMETRY_ENABLE": "y",
            "NIXL_TELEMETRY_EXPORTER": "prometheus",
            "NIXL_TELEMETRY_PROMETHEUS_LOCAL": "y",
            "NIXL_TELEMETRY_PROMETHEUS_PORT": str(ports["nixl-port"]),
        }
    return {**passed_on, **_OWN_ENV, **runtime_environment(), **env, **own}


def mount(node: NodePlan, state: State) -> Path:
    """Writes the node's mounted files, and returns the folder that stands for the root of its container."""
    root = state.folder / "mounts" / node.name
    for path, files in node.mounts.items():
        folder = root / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    return root


def _moved(text: str, node: NodePlan, root: Path) -> str:
    """A variable whose paths that are mounted, or hold what is, are where they are here."""
    return os.pathsep.join(
        f"{root}{path}" if path and any(_below(mount, path) for mount in node.mounts) else path
        for path in text.split(os.pathsep)
    )


def _below(path: str, folder: str) -> bool:
    return folder.startswith("/") and Path(path).is_relative_to(folder)


def side_channel_address(run_id: str) -> str:
    """A loopback address of this run. The serve config fixes the side channel's ports, which is
    right for pods, and would let two runs on one machine meet on one address."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return f"127.{digest[0] % 254 + 1}.{digest[1]}.{digest[2] % 254 + 1}"
