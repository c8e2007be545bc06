"""Ingress and HTTPRoute lead to the Service that KubeRay makes."""

from __future__ import annotations

SERVICE = "llm-ray-pd-llm-serve-svc"


def test_neither_is_made_unless_asked_for(render):
    assert render.kind("Ingress") == [] and render.kind("HTTPRoute") == []


def test_ingress(render):
    values = {
        "endpoint": {"routePrefix": "/qwen"},
        "ingress": {
            "enabled": True,
            "className": "alb",
            "hosts": ["a.example.com", "b.example.com"],
            "tls": [{"secretName": "cert", "hosts": ["a.example.com"]}],
        },
    }
    spec = render.one("Ingress", values)["spec"]
    assert spec["ingressClassName"] == "alb"
    assert spec["tls"] == [{"secretName": "cert", "hosts": ["a.example.com"]}]
    assert [rule["host"] for rule in spec["rules"]] == ["a.example.com", "b.example.com"]
    for rule in spec["rules"]:
        (path,) = rule["http"]["paths"]
        assert path["path"] == "/qwen"
        assert path["backend"]["service"] == {"name": SERVICE, "port": {"name": "serve"}}


def test_ingress_for_any_host(render):
    (rule,) = render.one("Ingress", {"ingress": {"enabled": True}})["spec"]["rules"]
    assert "host" not in rule


def test_http_route(render):
    values = {
        "httpRoute": {
            "enabled": True,
            "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}],
            "hostnames": ["llm.example.com"],
        }
    }
    spec = render.one("HTTPRoute", values)["spec"]
    assert spec["parentRefs"] == [
        {"name": "public", "namespace": "gateways", "sectionName": "https"}
    ]
    assert spec["hostnames"] == ["llm.example.com"]
    (rule,) = spec["rules"]
    assert rule["backendRefs"] == [{"name": SERVICE, "port": 8000}]
    assert rule["timeouts"] == {"request": "600s"}
