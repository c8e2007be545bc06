"""A release read from a cluster, and what is left out of it."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import pytest

from raypd.live import forward as forward_module
from raypd.live.cluster import Forbidden
from raypd.live.snapshot import log_files, take, time_of
from raypd.report import UsageError
from unit.live import sample

INSIDE = "namespaces/inference"
RAYSERVICES = f"/apis/ray.io/v1/{INSIDE}/rayservices"


class Fake:
    """A cluster of lists: each path has its items, or an exception."""

    def __init__(self, **changes: object) -> None:
        whole = sample.snapshot()
        self.lists: dict[str, object] = {
            RAYSERVICES: [whole.rayservice],
            f"/apis/ray.io/v1/{INSIDE}/rayclusters": whole.rayclusters,
            f"/api/v1/{INSIDE}/pods": whole.pods,
            "/api/v1/pods": [*whole.pods, sample.pending("decode", "no")],
            f"/api/v1/{INSIDE}/secrets": [
                {"metadata": {"labels": {"version": v, "status": s}}, "data": {"release": "x"}}
                for v, s in (("9", "superseded"), ("10", "deployed"))
            ],
            "/apis/apps/v1/deployments": [whole.operator],
            "/api/v1/nodes": whole.nodes,
            "/apis/apps/v1/daemonsets": whole.daemonsets,
            f"/api/v1/{INSIDE}/events": [],
            f"/apis/batch/v1/{INSIDE}/jobs": [],
            f"/api/v1/{INSIDE}/persistentvolumeclaims": [],
            f"/apis/networking.k8s.io/v1/{INSIDE}/networkpolicies": [],
            "/api/v1/namespaces/kuberay-system": [],
            **changes,
        }
        self.asked: list[tuple[str, str]] = []
        self.executed: list[str] = []
        self.read: list[tuple[str, str, bool]] = []

    def get(self, path, **query):
        return {"items": self.list(path)}

    def list(self, path, selector=""):
        self.asked.append((path, selector))
        found = self.lists[path]
        if isinstance(found, Exception):
            raise found
        return found

    def exec(self, namespace, pod, container, command, seconds=30):
        assert command[:2] == ["sh", "-c"]
        self.executed.append(pod)
        if "prefill" in pod:
            raise UsageError("cannot be run: Handshake status 403 Forbidden")
        return sample.log("decode", "Starting to load model")

    def logs(self, namespace, pod, container, tail=200, previous=False):
        self.read.append((pod, container, previous))
        return "its last words\n"


@pytest.fixture
def dashboard(monkeypatch):
    """Ray's dashboard behind the forwarded port; set `.answer` to change what it says."""

    class Dashboard:
        answer = httpx.Response(200, json=sample.serve())
        asked: tuple = ()

    @contextmanager
    def forward(cluster, namespace, pod, port):
        Dashboard.asked = (namespace, pod, port)
        if isinstance(Dashboard.answer, Exception):
            raise Dashboard.answer
        transport = httpx.MockTransport(lambda request: Dashboard.answer)
        with httpx.Client(transport=transport, base_url="http://x") as client:
            yield client

    monkeypatch.setattr(forward_module, "forward", forward)
    return Dashboard


def test_a_release_that_serves(dashboard):
    cluster = Fake()
    taken = take(cluster, "llm", "inference")
    assert taken.helm == {"version": "10", "status": "deployed"}
    assert taken.rayservice is not None
    assert [pod["metadata"]["name"] for pod in taken.pods] == list(sample.NAMES.values())
    assert taken.operator["metadata"]["name"] == "kuberay-operator"
    assert taken.serve == sample.serve()
    assert dashboard.asked == ("inference", sample.NAMES["head"], 8265)
    assert (f"/api/v1/{INSIDE}/pods", "app.kubernetes.io/instance=llm") in cluster.asked


def test_pods_of_others_are_read_only_while_one_of_the_releases_has_no_node(dashboard):
    assert take(Fake(), "llm", "inference").neighbours == []
    waits = [sample.pod("head"), sample.pending("decode", "0/3 nodes are available")]
    taken = take(Fake(**{f"/api/v1/{INSIDE}/pods": waits}), "llm", "inference")
    assert [pod["spec"]["nodeName"] for pod in taken.neighbours] == ["system", "gpu-a", "gpu-b"]
    assert set(taken.neighbours[0]) == {"metadata", "spec", "status"}
    assert "labels" not in taken.neighbours[0]["metadata"]


def test_engine_logs_of_every_engine_that_runs(dashboard):
    cluster = Fake()
    taken = take(cluster, "llm", "inference")
    assert set(cluster.executed) == {sample.NAMES["prefill"], sample.NAMES["decode"]}
    ((name, text),) = log_files(taken.engine_logs[sample.NAMES["decode"]])
    assert name.startswith(f"worker-{sample.WORKERS['decode']}")
    assert "Starting to load model" in text
    assert f"engine logs of {sample.NAMES['prefill']}" in taken.unseen


def test_the_last_words_of_containers_that_ended_badly(dashboard):
    crashed = sample.unready("decode")
    status = crashed["status"]["containerStatuses"][0]
    status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": sample.TAKEN}}
    cluster = Fake(**{f"/api/v1/{INSIDE}/pods": [crashed]})
    taken = take(cluster, "llm", "inference")
    name = sample.NAMES["decode"]
    assert taken.crash_logs == {f"{name}/ray-worker": "its last words\n"}
    assert cluster.read == [(name, "ray-worker", True)]


def test_what_one_may_not_read_is_left_out_and_named(dashboard):
    refused = Forbidden("nodes is forbidden")
    taken = take(Fake(**{"/api/v1/nodes": refused, RAYSERVICES: refused}), "llm", "inference")
    assert (taken.nodes, taken.rayservice, taken.crd) == ([], None, True)
    assert taken.unseen["nodes"] == "nodes is forbidden"
    assert "RayServices" in taken.unseen


def test_a_cluster_that_does_not_know_rayservices(dashboard):
    gone = LookupError("the server could not find the requested resource")
    changes = {RAYSERVICES: gone, f"/apis/ray.io/v1/{INSIDE}/rayclusters": gone}
    taken = take(Fake(**changes), "llm", "inference")
    assert (taken.crd, taken.rayservice, taken.rayclusters) == (False, None, [])


def test_no_head(dashboard):
    taken = take(Fake(**{f"/api/v1/{INSIDE}/pods": []}), "llm", "inference")
    assert (taken.serve, taken.serve_unreachable) == (None, "there is no head pod")


def test_a_head_that_has_not_started(dashboard):
    taken = take(
        Fake(**{f"/api/v1/{INSIDE}/pods": [sample.waiting("head", "ErrImagePull")]}),
        "llm",
        "inference",
    )
    assert "is Pending" in taken.serve_unreachable


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx.ConnectError("nothing listens"), "nothing listens"),
        (UsageError("may not forward ports"), "may not forward ports"),
        (httpx.Response(503, text="starting"), "HTTP 503: starting"),
    ],
)
def test_a_dashboard_that_does_not_answer(dashboard, monkeypatch, answer, says):
    monkeypatch.setattr(dashboard, "answer", answer)
    taken = take(Fake(), "llm", "inference")
    assert taken.serve is None
    assert says in taken.serve_unreachable


def test_the_head_that_serves_comes_before_the_newer_one_that_is_being_made():
    new = sample.changed(
        sample.pod("head"),
        """
        metadata:
          name: new
          creationTimestamp: "2026-03-01T11:59:00Z"
          labels: {ray.io/cluster: new}
        """,
    )
    pods = [new, sample.pod("head")]
    assert sample.snapshot(pods=pods).head()["metadata"]["name"] == sample.NAMES["head"]
    assert sample.snapshot(pods=pods, rayservice=None).head() is new


def test_times_of_events():
    assert time_of({"lastTimestamp": "a", "eventTime": "b", "metadata": {}}) == "a"
    series = {"series": {"lastObservedTime": "c"}, "lastTimestamp": "a", "metadata": {}}
    assert time_of(series) == "c"
    bare = {"lastTimestamp": None, "eventTime": None, "metadata": {"creationTimestamp": "d"}}
    assert time_of(bare) == "d"


def test_ages_of_times_with_and_without_microseconds():
    whole = sample.snapshot()
    assert whole.age("2026-03-01T11:59:30Z") == 30
    assert whole.age("2026-03-01T11:59:30.500000Z") == 29.5
