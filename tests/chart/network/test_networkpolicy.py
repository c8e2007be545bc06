"""The NetworkPolicy lets exactly the ports through that the render uses."""

from __future__ import annotations

from chart.rendering import CHART
from raypd import yaml_text

ON = {"networkPolicy": {"enabled": True}}
PORTS = yaml_text.load((CHART / "files" / "ports.yaml").read_text())


def ranges(rule: dict) -> list[tuple[int, int]]:
    return [(p["port"], p.get("endPort", p["port"])) for p in rule["ports"]]


def allows(rule: dict, port: int) -> bool:
    return any(first <= port <= last for first, last in ranges(rule))


def test_absent_unless_asked_for(render):
    assert render.kind("NetworkPolicy") == []


def test_selects_all_ray_pods_and_nothing_else(render):
    selector = render.one("NetworkPolicy", ON)["spec"]["podSelector"]
    components = selector["matchExpressions"][0]["values"]
    assert sorted(components) == ["decode", "head", "prefill"]
    for group in render.groups(ON).values():
        labels = group["template"]["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/component"] in components


def test_every_port_that_the_render_names_is_open_among_the_pods(render):
    (rule, *_) = render.one("NetworkPolicy", ON)["spec"]["ingress"]
    named = [
        int(value)
        for group in render.groups(ON).values()
        for key, value in group["rayStartParams"].items()
        if key.endswith("-port")
    ]
    named += [
        p["containerPort"]
        for pod in render.pods(ON).values()
        for p in pod["containers"][0]["ports"]
    ]
    assert len(named) > 20
    assert all(allows(rule, port) for port in named)


def test_side_channel_ranges_follow_replicas_and_devices(render):
    engines = {"instanceType": "p5.48xlarge", "parallelism": {"tensor": 4}}
    values = ON | {
        "model": {"source": "openai/gpt-oss-120b"},
        "prefill": engines | {"replicas": 3},
        "decode": engines | {"autoscaling": {"enabled": True, "maxReplicas": 5}},
        "transport": {"ports": {"prefill": 21000, "decode": 24000}},
    }
    (rule, *_) = render.one("NetworkPolicy", values)["spec"]["ingress"]
    assert (21000, 21011) in ranges(rule)
    assert (24000, 24019) in ranges(rule)
    assert not allows(rule, 21012) and not allows(rule, 40000)


def test_ucx_over_tcp_needs_the_ephemeral_ports(render):
    values = ON | {"transport": {"fabric": "tcp"}, "cache": {"type": "emptyDir"}}
    (rule, *_) = render.one("NetworkPolicy", values)["spec"]["ingress"]
    assert allows(rule, PORTS["ephemeral"]["first"])


def test_outsiders_reach_the_api_and_not_the_dashboard(render):
    _, clients, operator, prometheus = render.one("NetworkPolicy", ON)["spec"]["ingress"]
    assert ranges(clients) == [(8000, 8000)] and clients["from"] == [{"podSelector": {}}]
    assert allows(operator, 8265) and "namespaceSelector" in operator["from"][0]
    assert ranges(prometheus) == [(8080, 8080)]


def test_everybody_may_be_a_client(render):
    values = {"networkPolicy": {"enabled": True, "clients": []}}
    _, clients, *_ = render.one("NetworkPolicy", values)["spec"]["ingress"]
    assert "from" not in clients
