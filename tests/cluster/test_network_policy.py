"""The chart's NetworkPolicy on a network that enforces it: who gets a connection to the release's pods.

Outsiders ask for every port on which a pod listens. Those that matter a pod of the release asks for
too, and gets: nothing but the policy is in the outsiders' way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kubernetes import client

from chart.rendering import CHART
from cluster.devcluster import images, kuberay
from cluster.release import NAMESPACE, Release
from raypd import yaml_text

PORTS = yaml_text.load((CHART / "files" / "ports.yaml").read_text())
SERVE, METRICS = PORTS["common"]["serve"], PORTS["common"]["metrics"]
DASHBOARD, GCS, CLIENT = (PORTS["head"][name] for name in ("dashboard", "gcs", "client"))
SIDE_CHANNELS = 64  # from the first of a role on
ROLES = ("head", "prefill", "decode")
TENANTS, MONITORING = "tenants", "monitoring"
WEB = {"app": "web"}
PROBE_SECONDS = 60

# Tries each address for some seconds: who is let in may be so a moment after its own start, and who is
# not has to be kept out all the time.
PROBE = """
import concurrent.futures, json, socket, sys, time

def reaches(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
    except OSError:
        return False
    return True

addresses, reached = sys.argv[1:], set()
with concurrent.futures.ThreadPoolExecutor(len(addresses)) as pool:
    for _ in range(5):
        reached |= {a for a, yes in zip(addresses, pool.map(reaches, addresses)) if yes}
        time.sleep(1)
print(" ".join(reached))
"""

Ports = dict[str, set[int]]  # by role


class Probes:
    """Pods that ask for ports of the release's pods, all at once."""

    def __init__(self, release: Release) -> None:
        self._core = release.target.core
        self._roles = {release.pod(role).status.pod_ip: role for role in ROLES}
        self._started: dict[str, str] = {}  # name -> namespace

    def start(self, name: str, namespace: str, labels: dict[str, str], ports: Ports) -> None:
        addresses = [
            f"{host}:{port}" for host, role in self._roles.items() for port in sorted(ports[role])
        ]
        container = client.V1Container(
            name="probe",
            image=images.runtime().name,
            command=["/usr/bin/python3", "-c", PROBE, *addresses],
        )
        pod = client.V1Pod(
            metadata=client.V1ObjectMeta(name=name, labels=labels),
            spec=client.V1PodSpec(
                containers=[container],
                restart_policy="Never",
                termination_grace_period_seconds=0,
            ),
        )
        self._core.create_namespaced_pod(namespace, pod)
        self._started[name] = namespace

    def reached(self) -> dict[str, Ports]:
        """What each got a connection to."""
        found = {}
        for name, namespace in self._started.items():
            self._wait_for(name, namespace)
            found[name] = {role: set[int]() for role in ROLES}
            for address in self._core.read_namespaced_pod_log(name, namespace).split():
                host, _, port = address.partition(":")
                found[name][self._roles[host]].add(int(port))
        return found

    def _wait_for(self, name: str, namespace: str) -> None:
        deadline = time.monotonic() + PROBE_SECONDS
        while (pod := self._core.read_namespaced_pod(name, namespace)).status.phase != "Succeeded":
            assert pod.status.phase != "Failed", self._core.read_namespaced_pod_log(name, namespace)
            assert time.monotonic() < deadline, pod.status
            time.sleep(0.5)

    def end(self) -> None:
        for name, namespace in self._started.items():
            self._core.delete_namespaced_pod(name, namespace)


@pytest.fixture
def probes(reference: Release) -> Iterator[Probes]:
    if not reference.target.simulated:
        pytest.skip("whether another network enforces policies: docs/security.md has the command")
    core = reference.target.core
    for name in (TENANTS, MONITORING):
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    probes = Probes(reference)
    try:
        yield probes
    finally:
        probes.end()
        for name in (TENANTS, MONITORING):
            core.delete_namespace(name)


def test_each_gets_a_connection_to_what_the_policy_gives_it_and_to_nothing_else(reference, probes):
    listening = {role: _listening(reference, role) for role in ROLES}
    channels = reference.deployed.values["transport"]["ports"]
    inner = {"head": {DASHBOARD, GCS, CLIENT, METRICS}}
    for role in ("prefill", "decode"):
        side = range(channels[role], channels[role] + SIDE_CHANNELS)
        assert listening[role] & {*side}, f"{role} has no side channel"
        inner[role] = listening[role] & {*side} | {METRICS}
    for role in ROLES:
        assert listening[role] >= inner[role]
    labels = reference.pod("head").metadata.labels
    own = {
        f"app.kubernetes.io/{key}": labels[f"app.kubernetes.io/{key}"]
        for key in ("name", "instance")
    }

    probes.start("member", NAMESPACE, own, inner)
    probes.start("neighbour", NAMESPACE, WEB, listening)
    probes.start("stranger", TENANTS, WEB, listening)
    probes.start("twin", TENANTS, own, listening)
    probes.start("operator", kuberay.NAMESPACE, WEB, listening)
    probes.start("prometheus", MONITORING, WEB, listening)
    reached = probes.reached()

    assert reached["member"] == inner
    api = {role: listening[role] & {SERVE} for role in ROLES}
    assert api["head"] | api["prefill"] | api["decode"] == {SERVE}
    for outsider in ("neighbour", "stranger", "twin"):
        assert reached[outsider] == api, outsider
    assert reached["operator"] == {**api, "head": api["head"] | {DASHBOARD}}
    assert reached["prometheus"] == {role: api[role] | {METRICS} for role in ROLES}


def test_the_release_works_behind_its_policy(reference):
    """The operator, which asks the dashboard, says so; and an answer takes all three pods."""
    names = [item.metadata.name for item in _policies(reference)]
    assert names == [reference.rayservice()["metadata"]["name"]]
    assert reference.whole()
    assert reference.endpoint().chat("Who may ask?").choices[0].message.content.strip()


def _policies(release: Release) -> list[client.V1NetworkPolicy]:
    api = client.NetworkingV1Api(release.target.core.api_client)
    return api.list_namespaced_network_policy(NAMESPACE).items


def _listening(release: Release, role: str) -> set[int]:
    """TCP ports on which the role's pod takes connections from other pods."""
    table = release.execute(release.pod(role), "cat /proc/net/tcp /proc/net/tcp6")
    sockets = [line.split()[1:4] for line in table.splitlines() if ":" in line]
    ports = set()
    for local, _, state in sockets:
        host, _, port = local.partition(":")
        loopback = host.endswith("7F") or host == "00000000000000000000000001000000"
        if state == "0A" and not loopback:
            ports.add(int(port, 16))
    return ports
