"""How far a release is, look by look."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.live.progress import Stage, endpoint, serves, stages
from raypd.live.snapshot import Snapshot
from unit.live import paper
from unit.live.snapshots import LOADED, STARTED, pod, rayservice, running, serve, snapshot


def by_name(look: Snapshot, engines_start: bool = True) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages(look, engines_start)}


def counts(look: Snapshot) -> list[str]:
    return [f"{stage.done}/{stage.total}" for stage in stages(look)]


def test_before_there_are_pods_their_number_is_known() -> None:
    found = by_name(snapshot(rayservice=rayservice(pending="c1")))
    assert found["pods scheduled"] == Stage("pods scheduled", 0, 3, "3 not made yet")
    assert found["weights loaded"].total == 2
    assert not any(stage.complete for stage in found.values())


def test_before_there_is_a_rayservice_nothing_is_complete() -> None:
    assert not any(stage.complete for stage in stages(snapshot()))


def test_each_pod_on_its_way() -> None:
    pods = [pod("head"), pod("prefill", 2), pod("decode", 0)]
    found = by_name(snapshot(rayservice=rayservice(pending="c1"), pods=pods))
    assert found["pods scheduled"] == Stage("pods scheduled", 2, 3, "decode Unschedulable")
    assert found["images pulled"] == Stage("images pulled", 2, 3, "decode Unschedulable")
    assert found["containers started"].done == 1
    assert found["containers started"].detail == "prefill waits for the head, decode Unschedulable"


def test_a_pull_that_fails_is_named() -> None:
    failing = pod("head", 1)
    failing["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = "ImagePullBackOff"
    found = by_name(snapshot(rayservice=rayservice(pending="c1"), pods=[failing]))
    assert found["images pulled"].detail == "head ImagePullBackOff, 2 not made yet"


def test_engines_load_and_start() -> None:
    logs = {
        "llm-prefill": f"Starting to load model x\n{LOADED}\n{STARTED}",
        "llm-decode": "Starting to load model x\nLoading safetensors checkpoint shards:  25%",
    }
    found = by_name(running(serve=serve("DEPLOYING", 1), engine_logs=logs))
    weights = found["weights loaded"]
    assert (weights.done, weights.total) == (1, 2)
    assert weights.detail == "llm-decode: Loading safetensors checkpoint shards: 25%"
    assert found["engines started"].done == 1
    application = found["application runs"]
    assert (application.done, application.total) == (0, 1)
    assert application.detail == (
        "Prefill:qwen3.5-9b healthy, Decode:qwen3.5-9b updating, PDServer updating"
    )


def test_a_running_release_is_through_all_stages() -> None:
    assert counts(running()) == ["3/3", "3/3", "3/3", "2/2", "2/2", "1/1"]
    assert not any(stage.detail for stage in stages(running()))


def test_an_engine_over_two_pods_is_one_engine() -> None:
    values = ("topology.mode=multinode", "engine.parallelism.nodes=2", "cache.type=emptyDir")
    values += ("engine.parallelism.pipeline=2", "model.source=Qwen/Qwen2.5-14B")
    found = by_name(snapshot(rayservice=rayservice(*values, pending="c1")))
    assert (found["weights loaded"].total, found["engines started"].total) == (2, 1)


def test_in_place_the_logs_of_the_engines_before_count_for_nothing() -> None:
    assert set(by_name(running(), engines_start=False)) == {
        "pods scheduled",
        "images pulled",
        "containers started",
        "application runs",
    }


def test_of_two_clusters_the_new_one_is_followed() -> None:
    ending = pod("prefill", cluster="c2")
    ending["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    old = [pod("head"), pod("prefill"), pod("decode")]
    look = running(
        rayservice=rayservice(serving="c1", pending="c2"),
        pods=[*old, pod("head", 1, cluster="c2"), ending],
    )
    assert by_name(look)["pods scheduled"].done == 1
    assert not serves(look)


@pytest.mark.parametrize(
    "parts",
    [
        {"rayservice": rayservice(serving="c1", generation=2, observed=1)},
        {"rayservice": rayservice(serving="c1", pending="c2")},
        {"rayservice": rayservice(pending="c1")},
        {"rayservice": None},
        {"serve": serve("DEPLOYING", 2)},
        {"serve": {"applications": {}}},
        {"serve": None},
    ],
)
def test_it_does_not_serve_yet(parts: dict[str, Any]) -> None:
    assert serves(running())
    assert not serves(running(**parts))


def test_kuberay_is_believed_where_the_dashboard_cannot_be_reached() -> None:
    service = rayservice(serving="c1")
    service["status"]["activeServiceStatus"]["applicationStatuses"] = {
        "llm": {"status": "RUNNING", "serveDeploymentStatuses": {"PDServer": {"status": "HEALTHY"}}}
    }
    assert serves(running(rayservice=service, serve=None))


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ((), "http://llm-ray-pd-llm-serve-svc.inference.svc:8000"),
        (
            ("endpoint.routePrefix=/llm",),
            "http://llm-ray-pd-llm-serve-svc.inference.svc:8000/llm",
        ),
        (("endpoint.service=null",), "http://llm-ray-pd-llm-serve-svc.inference.svc:8000"),
    ],
)
def test_the_endpoint(values: tuple[str, ...], url: str) -> None:
    assert endpoint(paper.rendered(*values).rayservice) == url
