"""Whom NetworkPolicies let in, by the rules of Kubernetes' API reference (networking.k8s.io/v1,
NetworkPolicySpec): policies add up, and a pod that none of them selects is open to everybody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from raypd.label_selector import selects
from raypd.lint.subject import mapping, sequence

Json = dict[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"  # every namespace has its name in it


@dataclass(frozen=True)
class Caller:
    """A pod that opens a connection. `labels` are None where they are not known; they then meet every
    selector. `space` are the labels of its namespace, beside the one with its name."""

    namespace: str
    labels: Json | None
    space: Json | None = None


def admits(policies: Iterable[Json], namespace: str, pod: Json, caller: Caller, port: int) -> bool:
    """Whether `caller` reaches a TCP port of a pod with the labels `pod` in `namespace`.

    What only the cluster could tell is taken for admitted: an address (`ipBlock`), a port by its name.
    """
    rules = [
        [mapping(rule) for rule in sequence(spec.get("ingress"))]
        for policy in policies
        if mapping(policy.get("metadata")).get("namespace") == namespace
        and "Ingress" in ((spec := mapping(policy.get("spec"))).get("policyTypes") or ["Ingress"])
        and selects(mapping(spec.get("podSelector")), pod)
    ]
    return not rules or any(
        _has_port(rule, port) and _has_peer(rule, namespace, caller)
        for of_policy in rules
        for rule in of_policy
    )


def _has_port(rule: Json, port: int) -> bool:
    ports = [mapping(entry) for entry in sequence(rule.get("ports"))]
    return not ports or any(
        entry.get("protocol", "TCP") == "TCP"
        and (
            not isinstance(first := entry.get("port"), int)
            or first <= port <= entry.get("endPort", first)
        )
        for entry in ports
    )


def _has_peer(rule: Json, namespace: str, caller: Caller) -> bool:
    peers = [mapping(peer) for peer in sequence(rule.get("from"))]
    return not peers or any(_is(peer, namespace, caller) for peer in peers)


def _is(peer: Json, namespace: str, caller: Caller) -> bool:
    if "ipBlock" in peer:
        return True
    space = {NAME_LABEL: caller.namespace, **(caller.space or {})}
    if "namespaceSelector" in peer:
        near = selects(mapping(peer["namespaceSelector"]), space)
    else:
        near = caller.namespace == namespace
    known = caller.labels is None or selects(mapping(peer.get("podSelector")), caller.labels)
    return near and known
