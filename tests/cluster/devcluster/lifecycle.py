"""Making a cluster, looking at it, ending it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from cluster.devcluster import (
    binaries,
    cgroups,
    control_plane,
    dns,
    hardware,
    images,
    kuberay,
    machine,
    network,
    nodes,
    packages,
    state,
    store,
)
from cluster.devcluster.api import Api, wait
from cluster.devcluster.certificates import Authority
from cluster.devcluster.layout import Addresses, Node
from cluster.devcluster.layout import nodes as nodes_of
from cluster.devcluster.machine import Machine
from cluster.devcluster.state import Known, State
from raypd.report import UsageError
from raypd.toolchain import runtime_python
from raypd.toolchain.cache import locked

CONTROL_PLANE = "control-plane"
Say = Callable[[str], None]


def up(name: str = "dev", say: Say = lambda text: None) -> State:
    """Makes the cluster and returns when its nodes and the operator are ready; one that is up
    already is left as it is. What was begun is taken away again when anything fails."""
    if (known := state.find(name)) and known.complete and known.process():
        return known
    packages.require()
    binaries.obtain_all()
    runtime_python()
    wanted = [images.pause(), images.operator(), images.runtime()]
    store.filled(wanted)
    with begun(name) as cluster:
        _build(cluster, wanted, say)
    return cluster


def down(name: str = "dev") -> bool:
    """Ends the cluster, however far it came; says whether there was one."""
    cluster = state.find(name)
    if cluster is None:
        return False
    # The machines first: a kubelet that still runs would make new cgroups.
    roots = cluster.roots()
    members = {member for root in roots for member in [root, *_descendants(root)]}
    for root in roots:
        with suppress(psutil.NoSuchProcess):  # it went with the one before it
            root.kill()
    _, alive = psutil.wait_procs(members, timeout=30)
    if alive:
        raise UsageError(f"killed, but still there: {', '.join(map(str, alive))}")
    network.disconnect_host(Addresses(cluster.second))
    cgroups.remove(name)
    cluster.forget()
    return True


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def machines(cluster: State) -> dict[str, Machine]:
    """The cluster's machines by name, the control plane's among them."""
    return {
        name: Machine(name, first.pid, cluster.folder / name)
        for name, first in cluster.machines.items()
    }


def daemons(cluster: State) -> Iterator[tuple[str, str, bool]]:
    """(machine, daemon, alive) of each daemon."""
    for host in machines(cluster).values():
        for daemon in host.daemons():
            yield host.name, daemon, cluster.process() is not None and host.alive(daemon)


def restart_api_server(cluster: State, seconds_down: float) -> None:
    """Stops the API server, and starts it again after a while; returns when it is ready."""
    hub = machines(cluster)[CONTROL_PLANE]
    hub.stop("kube-apiserver")  # a second one beside it could not have its port
    time.sleep(seconds_down)
    hub.start_again("kube-apiserver")
    api = api_of(cluster)
    wait("the API server's start", api.ready, 90, lambda: hub.demand("kube-apiserver"))


def stop_kubelet(cluster: State, name: str) -> None:
    """Stops a node's kubelet, whose containers go on, and returns when the node is taken for lost."""
    machines(cluster)[name].stop("kubelet")
    api = api_of(cluster)
    wait(f"the loss of node {name}", lambda: not _ready(api, name), 120)


def start_kubelet_again(cluster: State, name: str) -> None:
    """Returns when the node is ready, with its devices."""
    host, api = machines(cluster)[name], api_of(cluster)
    (node,) = (n for n in nodes_of(Addresses(cluster.second)) if n.name == name)
    host.start_again("kubelet")
    _wait_for_node(api, host, node)
    hardware.advertise_devices(api, node)


def api_of(cluster: State) -> Api:
    """The API as the administrator."""
    keys = cluster.folder / "pki"
    url = control_plane.server(Addresses(cluster.second))
    return Api(url, keys / "ca.crt", keys / "kubeconfig.crt", keys / "kubeconfig.key")


@contextmanager
def begun(name: str) -> Iterator[State]:
    """A new cluster's record, for the body to build it; complete when the body is through, and
    everything is taken away again when the body fails or is interrupted."""
    down(name)
    cluster = _allot(name)
    with _ended_on_failure(cluster):
        yield cluster
        cluster.complete = True
        cluster.save()


def start_control_plane(cluster: State) -> tuple[Machine, Authority]:
    """The control plane's machine, wired to this host, with its four daemons started in it, and the
    authority that signs for the cluster."""
    addresses = Addresses(cluster.second)
    hub = machine.create(CONTROL_PLANE, cluster.folder / CONTROL_PLANE)
    cluster.holder = Known.of(hub.holder.pid)
    cluster.machines[CONTROL_PLANE] = Known.of(hub.pid)
    cluster.save()
    network.connect_host(addresses, hub)
    authority = Authority(cluster.folder / "pki")
    authority.kubeconfig(
        cluster.kubeconfig, control_plane.server(addresses), "admin", ["system:masters"]
    )
    control_plane.start(hub, addresses, authority)
    return hub, authority


def await_api(cluster: State, hub: Machine) -> Api:
    """The API as the administrator, once it answers."""
    api = api_of(cluster)
    wait("the API server's start", api.ready, 90, lambda: _demand(hub, control_plane.DAEMONS))
    return api


def _build(cluster: State, wanted: list[images.Image], say: Say) -> None:
    addresses = Addresses(cluster.second)
    layout = nodes_of(addresses)
    hub, authority = start_control_plane(cluster)
    say("control plane started")

    hosts = {}
    for node in layout:
        hosts[node.name] = machine.create(node.name, cluster.folder / node.name, inside=hub)
        cluster.machines[node.name] = Known.of(hosts[node.name].pid)
    cluster.save()
    network.connect_nodes(addresses, hub, hosts, layout)
    for node in layout:
        nodes.prepare(hosts[node.name], cluster.name, node)
        nodes.start_containerd(hosts[node.name], node, store.filled(wanted), wanted[0].name)
    say("nodes wired")

    api = await_api(cluster, hub)
    say("API server ready")
    dns.start(hub, addresses, authority)
    for node in layout:
        nodes.start_kubelet(hosts[node.name], cluster.name, node, addresses, authority)
        nodes.start_proxy(hosts[node.name], node, addresses, authority)
    kuberay.install(api, wanted[1])
    say("KubeRay applied")
    for node in layout:
        host = hosts[node.name]
        _wait_for_node(api, host, node)
        hardware.advertise_devices(api, node)
        nodes.start_firewall(host, node, addresses, authority)
    say("nodes ready")
    wait("the KubeRay operator's start", lambda: kuberay.running(api), 90)
    for host in hosts.values():
        _demand(host, ("containerd", "kubelet", "kube-proxy", "kube-router"))
    _demand(hub, (*control_plane.DAEMONS, "coredns"))


def _wait_for_node(api: Api, host: Machine, node: Node) -> None:
    wait(
        f"node {node.name}",
        lambda: _ready(api, node.name),
        90,
        lambda: _demand(host, ("containerd", "kubelet")),
    )


def _ready(api: Api, node: str) -> bool:
    try:
        conditions = api.get(f"/api/v1/nodes/{node}")["status"].get("conditions", [])
    except RuntimeError:  # not registered yet
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _demand(host: Machine, names: tuple[str, ...]) -> None:
    for name in names:
        host.demand(name)


def _allot(name: str) -> State:
    """A new cluster's record, with a range of addresses that nothing uses."""
    with locked("devcluster-ranges"):
        used = {known.second for known in state.all_known()}
        for second in state.RANGES:
            if second not in used and not network.taken(Addresses(second)):
                cluster = State(name=name, second=second)
                cluster.save()
                return cluster
    raise UsageError(
        f"no free range among 10.{state.RANGES[0]}.0.0/16 to 10.{state.RANGES[-1]}.0.0/16"
    )


@contextmanager
def _ended_on_failure(cluster: State) -> Iterator[None]:
    """Takes everything away when the body fails or is interrupted, by a signal too."""

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        yield
    except BaseException:
        down(cluster.name)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
