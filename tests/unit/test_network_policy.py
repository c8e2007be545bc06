"""Whom NetworkPolicies let in, case by case of Kubernetes' API reference."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.network_policy import Caller, admits

POD = {"app": "llm"}
NEAR = Caller("inference", {"app": "web"})
FAR = Caller("tenants", {"app": "web"}, {"team": "search"})
UNKNOWN = Caller("tenants", None)


def policy(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "inference"},
        "spec": {"podSelector": {"matchLabels": POD}, "ingress": list(rules), **spec},
    }


def reaches(caller: Caller, port: int, *policies: dict[str, Any]) -> bool:
    return admits(policies, "inference", POD, caller, port)


def peers(*given: dict[str, Any]) -> dict[str, Any]:
    return {"from": list(given)}


def ports(*given: dict[str, Any]) -> dict[str, Any]:
    return {"ports": list(given)}


@pytest.mark.parametrize(
    "policies",
    [
        [],
        [policy(podSelector={"matchLabels": {"app": "other"}})],
        [{**policy(), "metadata": {"namespace": "tenants"}}],
        [policy(policyTypes=["Egress"])],
    ],
)
def test_a_pod_that_no_policy_selects_is_open(policies: list[dict[str, Any]]) -> None:
    assert reaches(FAR, 8265, *policies)


@pytest.mark.parametrize("spec", [{}, {"policyTypes": ["Ingress"]}, {"podSelector": {}}])
def test_a_policy_without_a_rule_shuts(spec: dict[str, Any]) -> None:
    assert not reaches(NEAR, 8000, policy(**spec))


def test_a_rule_without_peers_and_ports_opens_all() -> None:
    assert reaches(FAR, 8265, policy({}))


def test_policies_add_up() -> None:
    api, metrics = policy(ports({"port": 8000})), policy(ports({"port": 8080}))
    assert reaches(FAR, 8000, api, metrics) and reaches(FAR, 8080, api, metrics)
    assert not reaches(FAR, 8265, api, metrics)


def test_a_rule_opens_its_ports_to_its_peers_only() -> None:
    rules = (
        {**peers({"podSelector": {}}), **ports({"port": 8265})},
        {**peers({"namespaceSelector": {}}), **ports({"port": 8000})},
    )
    assert reaches(NEAR, 8265, policy(*rules))
    assert not reaches(FAR, 8265, policy(*rules))
    assert reaches(FAR, 8000, policy(*rules))


@pytest.mark.parametrize(
    ("entry", "opened"),
    [
        ({"port": 8000}, {8000}),
        ({"port": 8000, "protocol": "TCP"}, {8000}),
        ({"port": 8000, "protocol": "UDP"}, set()),
        ({"port": 8000, "endPort": 8001}, {8000, 8001}),
        ({"protocol": "TCP"}, {7999, 8000, 8001, 8002}),
        ({"port": "serve"}, {7999, 8000, 8001, 8002}),
    ],
)
def test_ports(entry: dict[str, Any], opened: set[int]) -> None:
    made = policy(ports(entry))
    assert {port for port in range(7999, 8003) if reaches(FAR, port, made)} == opened


@pytest.mark.parametrize(
    ("peer", "near", "far"),
    [
        ({"podSelector": {}}, True, False),
        ({"podSelector": {"matchLabels": {"app": "web"}}}, True, False),
        ({"podSelector": {"matchLabels": {"app": "x"}}}, False, False),
        ({"namespaceSelector": {}}, True, True),
        ({"namespaceSelector": {"matchLabels": {"team": "search"}}}, False, True),
        (
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tenants"}}},
            False,
            True,
        ),
        (
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}},
            False,
            False,
        ),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, True, True),
    ],
)
def test_peers(peer: dict[str, Any], near: bool, far: bool) -> None:
    made = policy(peers(peer))
    assert (reaches(NEAR, 1, made), reaches(FAR, 1, made)) == (near, far)


def test_labels_that_are_not_known_meet_every_selector_of_pods() -> None:
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}}
    assert reaches(UNKNOWN, 1, policy(peers(peer)))
    assert not reaches(UNKNOWN, 1, policy(peers({"podSelector": {}})))
