"""The container image in public registries and in ECR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from raypd.preflight.image import Absent, Image, image_name, image_there, look_up
from raypd.preflight.outcome import NotChecked, Once
from unit.preflight.simulated import (
    Pages,
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

HOST, REPOSITORY, TAG = "public.ecr.aws", "deep-learning-containers/ray", "serve-llm-cuda"
PRIVATE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/ray:serve-llm-cuda-v1.0"


def test_the_default_image(aws: Simulated, pages: Pages) -> None:
    pages.image(HOST, REPOSITORY, TAG)
    found = outcomes(image_there, site(aws, web=pages.web))
    assert codes(found) == []
    assert f"{HOST}/{REPOSITORY}:{TAG} for amd64, 7.0 GB to pull, CUDA 13.0.2" in seen(found)


def test_an_image_that_is_not_there(aws: Simulated, pages: Pages) -> None:
    pages.image(HOST, REPOSITORY, "another-tag")
    assert only(outcomes(image_there, site(aws, web=pages.web)), "RPD822").path == "image"


def test_an_image_for_other_machines(aws: Simulated, pages: Pages) -> None:
    pages.image(HOST, REPOSITORY, TAG, architecture="arm64")
    found = outcomes(image_there, site(aws, web=pages.web))
    assert codes(found) == ["RPD823", "RPD823"]  # for both groups of nodes
    assert "g6.8xlarge needs amd64" in str(found)


@pytest.mark.parametrize(
    ("kind", "architecture", "expected"),
    [
        ("g5g.4xlarge", "arm64", []),
        ("g5g.4xlarge", "amd64", ["RPD823"]),
        ("g6e.12xlarge", "amd64", []),
        ("p6e-gb200.36xlarge", "amd64", ["RPD823"]),
        ("m7gd.xlarge", "amd64", ["RPD823"]),
    ],
)
def test_which_types_are_arm(
    aws: Simulated, kind: str, architecture: str, expected: list[str]
) -> None:
    written = config()
    del written["managedNodeGroups"][0]
    written["managedNodeGroups"][0]["instanceType"] = kind
    image = Image("x", (architecture,), 0, None)
    where = site(aws, config=written, image=Once(lambda: image))
    assert codes(outcomes(image_there, where)) == expected


def test_an_image_for_several_architectures(pages: Pages, aws: Simulated) -> None:
    base = "https://ghcr.io/v2/me/ray"
    entries = [
        {"digest": f"sha256:{name}", "platform": {"os": system, "architecture": name}}
        for system, name in (("linux", "amd64"), ("linux", "arm64"), ("unknown", "unknown"))
    ]
    pages.put(f"{base}/manifests/1.0", {"manifests": entries})
    pages.put(f"{base}/manifests/sha256:amd64", {"config": {"digest": "sha256:c"}, "layers": []})
    pages.put(f"{base}/blobs/sha256:c", {"architecture": "amd64", "config": {"Env": None}})
    image = look_up("ghcr.io/me/ray:1.0", pages.web, aws.account)
    assert (image.architectures, image.cuda) == (("amd64", "arm64"), None)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("ray:1", "https://registry-1.docker.io/v2/library/ray/manifests/1"),
        ("me/ray", "https://registry-1.docker.io/v2/me/ray/manifests/latest"),
        ("docker.io/me/ray:2", "https://registry-1.docker.io/v2/me/ray/manifests/2"),
        ("r.example:5000/ray:3", "https://r.example:5000/v2/ray/manifests/3"),
        ("r.example/a/b@sha256:d", "https://r.example/v2/a/b/manifests/sha256:d"),
        ("r.example/a/b:4@sha256:d", "https://r.example/v2/a/b/manifests/sha256:d"),
    ],
)
def test_where_an_image_is_looked_for(pages: Pages, aws: Simulated, name: str, url: str) -> None:
    pages.put(url, {"config": {"digest": "sha256:c"}})
    pages.put(f"{url.rpartition('/manifests')[0]}/blobs/sha256:c", {"architecture": "arm64"})
    assert look_up(name, pages.web, aws.account).architectures == ("arm64",)


def test_a_digest_wins_over_the_tag() -> None:
    assert image_name(values(image={"digest": "sha256:d"})).endswith("/ray@sha256:d")


def test_a_registry_that_wants_credentials_is_not_checked(aws: Simulated, pages: Pages) -> None:
    pages.put(f"https://{HOST}/v2/{REPOSITORY}/manifests/{TAG}", status=401)
    assert "pull Secrets" in unseen(outcomes(image_there, site(aws, web=pages.web)))


def test_a_registry_out_of_reach_is_not_checked(aws: Simulated, pages: Pages) -> None:
    found = outcomes(image_there, site(aws, web=pages.web))
    assert codes(found) == []
    assert "public.ecr.aws does not answer" in unseen(found)


@pytest.fixture
def ecr(aws: Simulated, pages: Pages) -> Iterator[dict[str, Any]]:
    """AWS's own account with the image."""
    manifest = {"config": {"digest": "sha256:c"}, "layers": [{"size": 5}]}
    state: dict[str, Any] = {"manifest": manifest, "tags": ["serve-llm-cuda-v1.0"], "asked": []}

    def batch(asked: dict[str, Any]) -> dict[str, Any]:
        state["asked"].append(asked)
        there = asked["imageIds"][0].get("imageTag") in state["tags"]
        image = {"imageManifest": json.dumps(state["manifest"])}
        return {"images": [image] if there else [], "failures": []}

    aws.answers["ecr.BatchGetImage"] = batch
    aws.answers["ecr.GetDownloadUrlForLayer"] = lambda _: {"downloadUrl": "https://s3.test/c"}
    pages.put("https://s3.test/c", {"architecture": "amd64", "config": {}})
    yield state


def test_an_image_in_ecr(aws: Simulated, pages: Pages, ecr: dict[str, Any]) -> None:
    assert look_up(PRIVATE, pages.web, aws.account) == Image(PRIVATE, ("amd64",), 5, None)
    (asked,) = ecr["asked"]
    assert (asked["registryId"], asked["repositoryName"]) == ("763104351884", "ray")


def test_an_image_that_ecr_lacks(aws: Simulated, pages: Pages, ecr: dict[str, Any]) -> None:
    ecr["tags"] = []
    with pytest.raises(Absent):
        look_up(PRIVATE, pages.web, aws.account)


def test_a_repository_that_ecr_lacks(aws: Simulated, pages: Pages) -> None:
    with pytest.raises(Absent):  # moto has none
        look_up(PRIVATE, pages.web, aws.account)


def test_an_image_in_the_ecr_of_another_region(
    aws: Simulated, pages: Pages, ecr: dict[str, Any]
) -> None:
    name = PRIVATE.replace("us-west-2", "eu-central-1")
    assert look_up(name, pages.web, aws.account).architectures == ("amd64",)


def test_ecr_without_credentials_is_not_checked(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raypd.preflight.aws.account import Account

    with pytest.raises(NotChecked, match="no AWS credentials"):
        look_up(PRIVATE, pages.web, Account("us-west-2"))
