"""The driver in the nodes' machine image against the CUDA in the container image."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.preflight.aws.ami import cuda_of, driver_in_ami
from raypd.preflight.image import Image
from raypd.preflight.outcome import NotChecked, Once
from unit.preflight.simulated import (
    CLUSTER,
    Simulated,
    codes,
    config,
    only,
    outcomes,
    seen,
    site,
    unseen,
    values,
)

_NAME = "amazon-eks-node-al2023-x86_64-nvidia-{}"


def gpu_group(**changes: Any) -> dict[str, Any]:
    written = config()
    written["managedNodeGroups"][1] |= changes
    return written


def test_the_image_that_eks_recommends(aws: Simulated) -> None:
    found = outcomes(driver_in_ami, site(aws))
    assert codes(found) == []
    assert "nvidia-1.35-v20260714 has driver 580 or newer" in seen(found)


def test_the_parameter_is_that_of_the_version_and_architecture(aws: Simulated) -> None:
    asked: list[str] = []

    def parameter(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question["Name"])
        return {"Parameter": {"Value": aws.ami}}

    aws.answers["ssm.GetParameter"] = parameter
    outcomes(driver_in_ami, site(aws))
    path = (
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    )
    assert asked == [path]


def test_an_image_that_is_too_old(aws: Simulated) -> None:
    old = aws.image(_NAME.format("1.33-v20251023"))
    finding = only(outcomes(driver_in_ami, site(aws, config=gpu_group(ami=old))), "RPD821")
    assert "older than 580" in finding.message
    assert "v20251029" in finding.remedy


@pytest.mark.parametrize(
    ("release", "expected"), [("1.32.9-20251029", ["RPD821"]), ("1.32.9-20251108", [])]
)
def test_a_release_that_is_pinned(aws: Simulated, release: str, expected: list[str]) -> None:
    where = site(aws, config=gpu_group(releaseVersion=release))
    assert codes(outcomes(driver_in_ami, where)) == expected


def test_an_image_that_is_not_there(aws: Simulated) -> None:
    where = site(aws, config=gpu_group(ami="ami-0123456789abcdef0"))
    assert only(outcomes(driver_in_ami, where), "RPD820").path == "managedNodeGroups[1].ami"


def test_nodes_that_run_have_the_image_that_they_started_from(aws: Simulated) -> None:
    old = aws.image(_NAME.format("1.34-v20251016"))
    (instance,) = aws.run("g6.8xlarge", cluster=CLUSTER, image=old)
    aws.run("m7i.xlarge", cluster=CLUSTER, image=old)
    assert only(outcomes(driver_in_ami, site(aws)), "RPD821").path == f"nodes {instance}"


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"amiFamily": "Bottlerocket"}, "Bottlerocket"), ({"ami": "own"}, "not EKS's own")],
)
def test_an_image_of_somebody_else_is_not_checked(
    aws: Simulated, changes: dict[str, str], says: str
) -> None:
    own = aws.image("golden-image-7")
    where = site(aws, config=gpu_group(**{k: own if v == "own" else v for k, v in changes.items()}))
    found = outcomes(driver_in_ami, where)
    assert codes(found) == []
    assert says in unseen(found)


def test_an_older_cuda_needs_less(aws: Simulated) -> None:
    old = aws.image(_NAME.format("1.33-v20250610"))
    image = Image("x", ("amd64",), 0, "12.8.1")
    where = site(aws, config=gpu_group(ami=old), image=Once(lambda: image))
    assert codes(outcomes(driver_in_ami, where)) == []


def test_the_cuda_of_the_image_itself_comes_first(aws: Simulated) -> None:
    image = Image("x", ("amd64",), 0, "12.9.1")
    assert cuda_of(site(aws, image=Once(lambda: image))) == (12, "by the container image")
    assert cuda_of(site(aws)) == (13, "by Ray 2.58.0 in the image")
    unknown = values(image={"rayVersion": "9.9.9"})
    with pytest.raises(NotChecked, match=r"Ray 9\.9\.9"):
        cuda_of(site(aws, values=unknown))
