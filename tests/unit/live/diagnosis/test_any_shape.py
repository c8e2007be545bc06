"""No field that the API server or Ray may leave out makes the doctor or the status fall over."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from raypd.live.diagnosis import diagnose
from raypd.live.snapshot import Snapshot
from raypd.live.status import standing
from unit.live.sample import (
    NAMES,
    deployment,
    event,
    log,
    pending,
    pod,
    rayservice,
    serve,
    snapshot,
    unready,
)

# What Kubernetes' and Ray's schemas require, or what the server itself always fills in.
ALWAYS = {
    *("metadata", "name", "namespace", "uid", "creationTimestamp", "spec", "status", "phase"),
    *(
        "containers",
        "initContainers",
        "template",
        "conditions",
        "type",
        "key",
        "effect",
        "operator",
    ),
    *("image", "exitCode", "startedAt", "topologyKey", "involvedObject", "values"),
    *("applications", "deployments", "replica_id", "state", "start_time_s", "nodeName"),
    *("lastTransitionTime", "lastTimestamp", "readyReplicas", "reason", "message"),
}
FIELDS = ("rayservice", "pods", "nodes", "daemonsets", "events", "serve", "operator", "neighbours")


def busy() -> Snapshot:
    """A release in which most checks have something to look at."""
    crashed = unready("prefill")
    crashed["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-03-01T11:59:00Z"}
    }
    waits = pending("decode", "0/3 nodes are available: 1 Insufficient nvidia.com/gpu")
    return snapshot(
        rayservice=rayservice(ready=False),
        pods=[pod("head"), crashed, waits],
        neighbours=[pod("head"), pod("prefill")],
        serve=serve(
            "DEPLOY_FAILED",
            decode=deployment("decode", "UPDATING", "Error:\nKeyError: 1", "STARTING"),
        ),
        events=[event("Pod", crashed, "Unhealthy", "Readiness probe failed: success")],
        engine_logs={NAMES["prefill"]: log("prefill", "Starting to load model")},
    )


def paths(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = item.items() if isinstance(item, dict) else enumerate(item)
    for key, child in children:
        if isinstance(item, dict) and key not in ALWAYS:
            yield (*path, key)
        if isinstance(child, (dict, list)):
            yield from paths(child, (*path, key))


@pytest.mark.parametrize("field", FIELDS)
def test_without_any_one_field(field):
    whole = busy()
    for path in paths(getattr(whole, field)):
        changed = copy.deepcopy(whole)
        item = getattr(changed, field)
        for key in path[:-1]:
            item = item[key]
        del item[path[-1]]
        try:
            diagnose(changed)
            standing(changed)
        except Exception as error:
            raise AssertionError(f"without {field}{list(path)}: {error!r}") from error
