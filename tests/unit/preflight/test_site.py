"""The nodes that are wanted, from an eksctl config or from the values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raypd.preflight.site import Nodes, nodes_of_config, nodes_of_values
from raypd.render import ValueArguments, render
from raypd.render.helm import merged_values
from unit.preflight.simulated import BLOCK, CHART, INSTANCES, ROOT, config


def told(nodes: list[Nodes]) -> list[str]:
    return [f"{one} {one.market}{' efa' if one.efa else ''} {','.join(one.zones)}" for one in nodes]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "g6",
            ["1 x m7i.xlarge on-demand us-west-2a", "2 x g6.8xlarge on-demand efa us-west-2a"],
        ),
        ("g5-tcp", ["1 x m7i.xlarge on-demand us-west-2a", "2 x g5.4xlarge on-demand us-west-2a"]),
        (
            "p5",
            [
                "1 x m7i.xlarge on-demand us-east-2a",
                "2 x p5.48xlarge capacity-block efa us-east-2a",
            ],
        ),
    ],
)
def test_nodes_of_the_shipped_configs(name: str, expected: list[str]) -> None:
    assert told(nodes_of_config(config(name), INSTANCES)) == expected


@pytest.mark.parametrize(
    ("changes", "market"),
    [
        ({"spot": True}, "spot"),
        ({"instancesDistribution": {"onDemandPercentageAboveBaseCapacity": 0}}, "spot"),
        (
            {
                "instancesDistribution": {
                    "onDemandPercentageAboveBaseCapacity": 0,
                    "onDemandBaseCapacity": 1,
                }
            },
            "on-demand",
        ),
    ],
)
def test_how_nodes_are_paid(changes: dict[str, Any], market: str) -> None:
    written = config()
    written["managedNodeGroups"][1] |= changes
    assert nodes_of_config(written, INSTANCES)[1].market == market


def test_the_reservation_of_a_group() -> None:
    written = config("p5")
    target = {"capacityReservationTarget": {"capacityReservationID": BLOCK}}
    written["managedNodeGroups"][1]["capacityReservation"] = target
    assert nodes_of_config(written, INSTANCES)[1].reservation == BLOCK


def of_values(*set_: str, file: str | None = None) -> list[Nodes]:
    files: list[Path] = [ROOT / "values" / f"{file}.yaml"] if file else []
    arguments = ValueArguments(files, list(set_))
    return nodes_of_values(merged_values(CHART, arguments), render(CHART, arguments), INSTANCES)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "g6-qwen3.5-9b",
            [
                "1 x m7i.xlarge on-demand ",
                "1 x g6.8xlarge on-demand efa ",
                "1 x g6.8xlarge on-demand efa ",
            ],
        ),
        # Two prefill engines of four GPUs share one node of eight.
        (
            "p5-gpt-oss-120b",
            [
                "1 x m7i.xlarge on-demand ",
                "1 x p5.48xlarge on-demand efa ",
                "1 x p5.48xlarge on-demand efa ",
            ],
        ),
        (
            "g6-qwen2.5-14b-multinode",
            ["1 x m7i.xlarge on-demand ", "2 x g6.8xlarge on-demand efa "],
        ),
    ],
)
def test_nodes_of_values_files(file: str, expected: list[str]) -> None:
    assert told(of_values(file=file)) == expected


def test_roles_that_may_share_nodes() -> None:
    shared = of_values(
        "placement.rolesApart=false", "transport.fabric=tcp", "cache.hostPath.setOwner=true"
    )
    assert told(shared)[1:] == ["2 x g6.8xlarge on-demand "]


def test_the_zone_that_engines_are_pinned_to() -> None:
    assert {one.zones for one in of_values("placement.zone=us-west-2c")} == {("us-west-2c",)}


def test_values_without_types_name_no_nodes() -> None:
    assert of_values("prefill.instanceType=,decode.instanceType=,head.instanceType=") == []
