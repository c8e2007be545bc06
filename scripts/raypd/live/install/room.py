"""What a pod takes of its node."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from kubernetes.utils import parse_quantity

from raypd.lint.subject import mapping, sequence

Json = dict[str, Any]
Amounts = dict[str, Decimal]


def request_of(pod: Json) -> Amounts:
    """By resource what a pod, given as its spec, takes: the sum of its containers, or an init
    container if that is more, and the pod's overhead; one of "pods" as well."""
    total: Amounts = {"pods": Decimal(1)}
    for container in map(mapping, sequence(pod.get("containers"))):
        add(total, _of_container(container))
    sidecars: Amounts = {}
    for container in map(mapping, sequence(pod.get("initContainers"))):
        needs = _of_container(container)
        if container.get("restartPolicy") == "Always":
            add(sidecars, needs)
            needs = {}
        for name, amount in needs.items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    add(total, sidecars)
    add(total, amounts(mapping(pod.get("overhead"))))
    return total


def amounts(written: Json) -> Amounts:
    """Quantities as numbers: {"cpu": "500m"} is {"cpu": 0.5}. What is no quantity is left out."""
    found = {}
    for name, amount in written.items():
        with suppress(ValueError, TypeError, ArithmeticError):
            found[str(name)] = parse_quantity(amount)
    return found


def add(total: Amounts, more: Amounts) -> None:
    """Adds to `total`, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _of_container(container: Json) -> Amounts:
    """Requests; where there is none the limit, as the API server fills it in."""
    resources = mapping(container.get("resources"))
    return amounts({**mapping(resources.get("limits")), **mapping(resources.get("requests"))})
