"""What a pod takes of its node."""

from __future__ import annotations

from decimal import Decimal

from raypd.live.install.room import amounts, request_of


def test_a_pod_takes_the_most_of_what_its_containers_take() -> None:
    pod = {
        "containers": [
            {"resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "1"}}},
        ],
        "initContainers": [
            {"resources": {"requests": {"cpu": "4"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
        ],
        "overhead": {"cpu": "100m"},
    }
    assert request_of(pod) == {
        "pods": 1,
        "cpu": Decimal("4.1"),
        "memory": 2 * 2**30,
    }


def test_what_is_no_quantity_takes_nothing() -> None:
    assert amounts({"cpu": "much", "memory": None, "a": []}) == {}
    assert request_of({"containers": [1, {"resources": {"limits": {"cpu": "x"}}}]}) == {"pods": 1}
