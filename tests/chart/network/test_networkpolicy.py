"""The NetworkPolicy, asked by its own rules who reaches what."""

from __future__ import annotations

from typing import Any

import pytest

from chart.rendering import CHART, SITUATIONS, Render
from raypd import yaml_text
from raypd.network_policy import Caller, admits

SPACE = "inference"
PORTS = yaml_text.load((CHART / "files" / "ports.yaml").read_text())
HEAD, COMMON, WORKERS = PORTS["head"], PORTS["common"], PORTS["workers"]
SERVE, METRICS, DASHBOARD = COMMON["serve"], COMMON["metrics"], HEAD["dashboard"]
MOST_PORTS = (
    24  # of one peer over all policies, by the EKS user guide, "Limit Pod traffic", Considerations
)

STRANGER = Caller("tenants", {"app": "web"})
NEIGHBOUR = Caller(SPACE, {"app": "web"})
OTHER_RELEASE = Caller(
    SPACE, {"app.kubernetes.io/name": "ray-pd-llm", "app.kubernetes.io/instance": "other"}
)
OPERATOR = Caller("kuberay-system", {"app.kubernetes.io/name": "kuberay-operator"})
PROMETHEUS = Caller("monitoring", {"app.kubernetes.io/name": "prometheus"})
OUTSIDERS = {"stranger": STRANGER, "neighbour": NEIGHBOUR, "other release": OTHER_RELEASE}
# Beside what files/ports.yaml names: NIXL's side channels, Ray's own default ports, Serve's gRPC proxy and direct
# ingress, metrics of autoscaler and dashboard, what the kernel gives, and what nobody listens on.
FURTHER = [20000, 20001, 22000, 22007, 1, 22, 9000, 30000, 32768, 44217, 44227, 60999, 65535]
TCP = {"transport": {"fabric": "tcp"}, "cache": {"type": "emptyDir"}}
MODES: dict[str, dict[str, Any]] = {
    **SITUATIONS,
    "tcp": TCP,
    "moved side channels": {"transport": {"ports": {"prefill": 41000, "decode": 42000}}},
}

each_mode = pytest.mark.parametrize("values", MODES.values(), ids=MODES)


def labels(render: Render, values: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Of each Ray pod, by its group."""
    return {
        name: group["template"]["metadata"]["labels"]
        for name, group in render.groups(values).items()
    }


def open_to(
    render: Render, values: dict[str, Any], caller: Caller, pod: dict[str, str]
) -> set[int]:
    """Those of all ports worth a look that `caller` reaches."""
    policies = render.kind("NetworkPolicy", values)
    every = {*HEAD.values(), *COMMON.values(), *WORKERS.values(), *FURTHER}
    return {port for port in every if admits(policies, SPACE, pod, caller, port)}


def named_ports(render: Render, values: dict[str, Any]) -> set[int]:
    """Every port that the render tells Ray, NIXL or Kubernetes."""
    found = {
        int(value)
        for group in render.groups(values).values()
        for key, value in group["rayStartParams"].items()
        if key.endswith("-port")
    }
    found |= {
        port["containerPort"]
        for pod in render.pods(values).values()
        for container in pod["containers"]
        for port in container.get("ports", [])
    }
    for config in render.serve_args(values).values():
        if isinstance(config, dict):
            base = config.get("experimental_configs", {}).get("NIXL_SIDE_CHANNEL_PORT_BASE")
            found |= set(range(base, base + 64)) if base else set()
    return found


@each_mode
@pytest.mark.parametrize("caller", OUTSIDERS.values(), ids=OUTSIDERS)
def test_whoever_is_not_of_the_release_reaches_the_api_and_nothing_else(render, values, caller):
    for pod in labels(render, values).values():
        assert open_to(render, values, caller, pod) == {SERVE}


@each_mode
def test_the_operator_reaches_the_dashboard(render, values):
    head = labels(render, values)["head"]
    assert open_to(render, values, OPERATOR, head) == {SERVE, DASHBOARD}


@each_mode
def test_prometheus_reaches_the_metrics(render, values):
    for pod in labels(render, values).values():
        assert open_to(render, values, PROMETHEUS, pod) == {SERVE, METRICS}


@each_mode
def test_pods_of_the_release_reach_one_another_on_every_port(render, values):
    policies = render.kind("NetworkPolicy", values)
    pods = labels(render, values)
    ports = named_ports(render, values) | set(FURTHER)
    assert {HEAD["gcs"], DASHBOARD, SERVE, METRICS, *WORKERS.values()} <= ports
    for caller in (Caller(SPACE, own) for own in pods.values()):
        for pod in pods.values():
            assert all(admits(policies, SPACE, pod, caller, port) for port in ports)


@each_mode
def test_a_peer_has_no_more_ports_than_the_vpc_cni_takes(render, values):
    rules = render.one("NetworkPolicy", values)["spec"]["ingress"]
    assert sum(max(1, len(rule.get("ports", []))) for rule in rules) <= MOST_PORTS


def test_the_same_labels_in_another_namespace_are_a_stranger(render):
    own = labels(render, {})
    twin = Caller("tenants", own["head"])
    assert open_to(render, {}, twin, own["head"]) == {SERVE}


def test_pods_of_another_release_are_not_touched(render):
    policies = render.kind("NetworkPolicy")
    assert admits(policies, SPACE, dict(OTHER_RELEASE.labels), STRANGER, DASHBOARD)


def test_clients_can_be_named(render):
    peers = [
        {"podSelector": {"matchLabels": {"app": "web"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}},
    ]
    values = {"networkPolicy": {"clients": peers}}
    pod = labels(render, values)["decode"]
    assert open_to(render, values, NEIGHBOUR, pod) == {SERVE}
    assert open_to(render, values, Caller("ingress", {}), pod) == {SERVE}
    assert open_to(render, values, STRANGER, pod) == set()
    assert SERVE in open_to(render, values, OPERATOR, pod)


def test_nobody_but_clients_where_operator_and_prometheus_are_empty(render):
    values = {"networkPolicy": {"operator": [], "prometheus": []}}
    pod = labels(render, values)["head"]
    for caller in (OPERATOR, PROMETHEUS):
        assert open_to(render, values, caller, pod) == {SERVE}


def test_it_can_be_left_out(render):
    assert render.kind("NetworkPolicy", {"networkPolicy": {"enabled": False}}) == []


def test_helms_test_reaches_the_api_whoever_the_clients_are(render):
    values = {"networkPolicy": {"clients": [{"podSelector": {"matchLabels": {"app": "web"}}}]}}
    test = Caller(SPACE, render.one("Pod", values)["metadata"]["labels"])
    assert SERVE in open_to(render, values, test, labels(render, values)["decode"])
