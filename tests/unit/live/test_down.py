"""What is deleted, what stays, what hangs and why."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from raypd.live import down
from raypd.live.down import Down, Left, plan, stuck
from raypd.report import Finding, UsageError
from unit.live import paper

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()
SPACE = "/api/v1/namespaces/inference"
RAY = "/apis/ray.io/v1/namespaces/inference"
LABELS = {"app.kubernetes.io/instance": "llm"}
KEEP = {"annotations": {"helm.sh/resource-policy": "keep"}}


def thing(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "inference", "labels": LABELS, **metadata}}


def ending(name: str, at: str = "2026-01-31T11:00:00Z", **metadata: Any) -> dict[str, Any]:
    return thing(name, deletionTimestamp=at, **metadata)


def pod(item: dict[str, Any], node: str = "gpu-a") -> dict[str, Any]:
    return {**item, "spec": {"nodeName": node}}


def manifests(*set_: str) -> list[dict[str, Any]]:
    return [m for m in paper.rendered(*set_).manifests if not _is_hook(m)]


def _is_hook(manifest: dict[str, Any]) -> bool:
    return "helm.sh/hook" in (manifest["metadata"].get("annotations") or {})


LEFT = Left(
    rayservices=[thing("llm-ray-pd-llm")],
    rayclusters=[thing("llm-ray-pd-llm-x7")],
    pods=[pod(thing("llm-ray-pd-llm-x7-head"))],
)


def test_the_plan_names_what_helm_and_kuberay_delete_and_what_stays() -> None:
    found = plan(manifests(), LEFT, "inference", delete_claims=False)
    assert "RayService llm-ray-pd-llm" in found.deleted
    assert "RayCluster llm-ray-pd-llm-x7, made by KubeRay" in found.deleted
    assert "Pod llm-ray-pd-llm-x7-head" in found.deleted
    assert len(found.deleted) == len(set(found.deleted))
    assert found.kept == [
        "/mnt/k8s-disks/0 on the nodes: what prefill and decode wrote there",
        "namespace inference, KubeRay's operator and its CRDs",
    ]
    assert found.claims == []


def test_a_folder_that_pods_only_read_is_nothing_that_they_leave() -> None:
    objects = manifests(
        "decode.volumes[0].name=tools",
        "decode.volumes[0].hostPath.path=/opt/tools",
        "decode.volumeMounts[0].name=tools",
        "decode.volumeMounts[0].mountPath=/opt/tools",
        "decode.volumeMounts[0].readOnly=true",
    )
    assert "/opt/tools" in str(objects)
    assert not any("/opt/tools" in line for line in plan(objects, LEFT, "inference", False).kept)


def test_claims_stay_unless_told() -> None:
    objects = manifests("cache.type=persistentVolumeClaim")
    left = Left(claims=[thing("llm-ray-pd-llm-cache")])
    kept = plan(objects, left, "inference", delete_claims=False)
    line = "PersistentVolumeClaim llm-ray-pd-llm-cache"
    assert f"{line} (--delete-claims deletes it)" in kept.kept
    assert not any(line in other for other in kept.deleted)
    told = plan(objects, left, "inference", delete_claims=True)
    assert f"{line}, with all that it holds" in told.deleted
    assert told.claims == ["llm-ray-pd-llm-cache"]


def test_a_claim_that_the_values_do_not_keep_goes_with_helm() -> None:
    values = ("cache.type=persistentVolumeClaim", "cache.persistentVolumeClaim.keep=false")
    left = Left(claims=[thing("llm-ray-pd-llm-cache")])
    found = plan(manifests(*values), left, "inference", delete_claims=True)
    assert "PersistentVolumeClaim llm-ray-pd-llm-cache" in found.deleted
    assert found.claims == []


def test_other_objects_that_ask_to_be_kept_stay() -> None:
    kept = {"kind": "ConfigMap", "metadata": {"name": "notes", **KEEP}}
    found = plan([kept], Left(), "inference", delete_claims=True)
    assert found.deleted == []
    assert found.kept[0] == "ConfigMap notes, which asks to be kept"


def alone(left: Left) -> Finding:
    (finding,) = stuck(left, NOW)
    return finding


READY = [
    {"metadata": {"name": "gpu-a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
]
DEAD = [
    {
        "metadata": {"name": "gpu-a"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
]


@pytest.mark.parametrize(
    ("left", "code", "says"),
    [
        (Left(rayclusters=[thing("c")]), "RPD670", "nobody has asked for its end"),
        (Left(pods=[pod(thing("p"))]), "RPD670", "nobody has asked for its end"),
        (Left(jobs=[ending("j")]), "RPD671", "what it owns has to go first"),
        (
            Left(rayservices=[ending("s", finalizers=["ray.io/rayservice-finalizer"])]),
            "RPD672",
            "no operator is running",
        ),
        (
            Left(
                rayclusters=[ending("c", finalizers=["ray.io/gcs-ft-redis-cleanup-finalizer"])],
                operator=paper.operator(),
            ),
            "RPD672",
            "Redis",
        ),
        (
            Left(pods=[pod(ending("p", "2026-01-31T12:01:30Z", deletionGracePeriodSeconds=120))]),
            "RPD671",
            "90 s of its grace period of 120 s",
        ),
        (Left(pods=[pod(ending("p"))], nodes=DEAD), "RPD673", "gpu-a, which is not ready"),
        (Left(pods=[pod(ending("p"))], nodes=[]), "RPD673", "is not there any more"),
        (
            Left(pods=[pod(ending("p", finalizers=["example.org/x"]))], nodes=READY),
            "RPD672",
            "example.org/x",
        ),
        (Left(pods=[pod(ending("p"))], nodes=READY), "RPD673", "over 3600 s ago"),
        (Left(pods=[pod(ending("p"))], nodes=None), "RPD673", "over 3600 s ago"),
    ],
)
def test_why_something_hangs(left: Left, code: str, says: str) -> None:
    finding = alone(left)
    assert (finding.code, says in finding.message) == (code, True), finding.message
    assert "inference/" in finding.path


def test_with_the_operator_at_work_its_log_is_the_place_to_look() -> None:
    held = [ending("s", finalizers=["ray.io/rayservice-finalizer"])]
    finding = alone(Left(rayservices=held, operator=paper.operator()))
    assert "operator's log" in finding.remedy


class FakeHelm:
    """Knows one release; uninstalling it takes away what `takes` names by path."""

    def __init__(self, cluster: paper.FakeCluster, takes: tuple[str, ...] = ()) -> None:
        self.cluster, self.takes, self.uninstalled = cluster, takes, False
        self.during: Callable[[], None] = lambda: None
        self.values: tuple[str, ...] = ()

    def status(self, release: str, namespace: str) -> str | None:
        return "deployed" if release == "llm" else None

    def releases(self, namespace: str) -> list[str]:
        return ["llm (inference)", "kuberay-operator (kuberay-system)"]

    def manifests(self, release: str, namespace: str) -> list[dict[str, Any]]:
        return manifests(*self.values)

    def uninstall(self, release: str, namespace: str) -> None:
        self.uninstalled = True
        for path in self.takes:
            self.cluster.objects.pop(path)
        self.during()


class Clock:
    """Time that passes only when it is waited for; `later` happens at its second."""

    def __init__(self) -> None:
        self.time = NOW
        self.later: dict[int, Callable[[], object]] = {}

    def __call__(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds
        for at in [at for at in self.later if self.time - NOW >= at]:
            self.later.pop(at)()


SERVICE, CLUSTER = f"{RAY}/rayservices/llm-ray-pd-llm", f"{RAY}/rayclusters/llm-x7"
HEAD, CLAIM = f"{SPACE}/pods/llm-head", f"{SPACE}/persistentvolumeclaims/llm-cache"


def there() -> paper.FakeCluster:
    owner = [{"kind": "RayCluster"}]
    return paper.FakeCluster(
        {
            SERVICE: thing("llm-ray-pd-llm", ownerReferences=[]),
            CLUSTER: thing("llm-x7"),
            HEAD: pod(thing("llm-head", ownerReferences=owner)),
            CLAIM: thing("llm-cache"),
        }
    )


def work(cluster: paper.FakeCluster, helm: FakeHelm, clock: Clock) -> tuple[Down, list[str]]:
    said: list[str] = []
    return (
        Down(
            "llm",
            "inference",
            cluster,  # type: ignore[arg-type]
            helm,  # type: ignore[arg-type]
            timeout=60,
            now=clock,
            pause=clock.pause,
            say=said.append,
        ),
        said,
    )


def test_it_waits_until_all_is_gone_and_the_claim_stays() -> None:
    cluster, clock = there(), Clock()
    clock.later = {4: lambda: cluster.objects.pop(CLUSTER), 8: lambda: cluster.objects.pop(HEAD)}
    doing, said = work(cluster, FakeHelm(cluster, (SERVICE,)), clock)
    doing.go(doing.look(delete_claims=False))
    assert (doing.result.gone, doing.result.findings, doing.result.seconds) == (True, [], 8)
    assert CLAIM in cluster.objects
    assert said[1:] == [
        "     0 s  still there: 1 RayCluster, 1 Pod",
        "     4 s  still there: 1 Pod",
        "     8 s  still there: nothing",
    ]


def test_the_claim_goes_last_when_told() -> None:
    cluster, clock = there(), Clock()
    doing, _ = work(cluster, FakeHelm(cluster, (SERVICE, CLUSTER, HEAD)), clock)
    planned = doing.look(delete_claims=True)
    assert planned.claims == ["llm-cache"]
    doing.go(planned)
    assert (doing.result.gone, cluster.deleted) == (True, [CLAIM])


REDIS = ("gcsFaultTolerance.enabled=true", "gcsFaultTolerance.redisAddress=redis:6379")
ACCOUNT = f"{SPACE}/serviceaccounts/llm-ray-pd-llm"


def test_the_account_of_the_job_that_empties_the_redis_goes_after_it() -> None:
    cluster, clock = there(), Clock()
    clock.later = {6: lambda: cluster.objects.pop(CLUSTER)}
    helm = FakeHelm(cluster, (SERVICE, HEAD))
    helm.values = REDIS
    doing, _ = work(cluster, helm, clock)
    planned = doing.look(delete_claims=False)
    assert any(line.startswith("ServiceAccount llm-ray-pd-llm") for line in planned.deleted)
    assert not any("ServiceAccount" in line for line in planned.kept)
    doing.go(planned)
    assert (doing.result.gone, cluster.deleted) == (True, [ACCOUNT])


def test_the_account_stays_while_the_job_may_need_it() -> None:
    cluster, clock = there(), Clock()
    helm = FakeHelm(cluster, (SERVICE, HEAD))
    helm.values = REDIS
    doing, _ = work(cluster, helm, clock)
    doing.go(doing.look(delete_claims=False))
    assert (doing.result.gone, cluster.deleted) == (False, [])


def test_a_claim_in_use_is_told() -> None:
    cluster, clock = there(), Clock()
    cluster.delete = lambda path, **_: True  # type: ignore[method-assign]
    doing, _ = work(cluster, FakeHelm(cluster, (SERVICE, CLUSTER, HEAD)), clock)
    doing.go(doing.look(delete_claims=True))
    (finding,) = doing.result.findings
    assert finding.path == "PersistentVolumeClaim inference/llm-cache"
    assert not doing.result.gone


def test_what_hangs_is_told_when_time_is_up() -> None:
    cluster, clock = there(), Clock()
    cluster.objects[CLUSTER]["metadata"] |= {
        "deletionTimestamp": "2026-01-31T12:00:00Z",
        "finalizers": ["x.io/y"],
    }
    doing, _ = work(cluster, FakeHelm(cluster, (SERVICE, HEAD)), clock)
    doing.go(doing.look(delete_claims=False))
    (finding,) = doing.result.findings
    assert (finding.code, finding.path) == ("RPD672", "RayCluster inference/llm-x7")
    assert doing.result.seconds == pytest.approx(62)


def test_what_helm_leaves_of_a_failed_test_is_deleted() -> None:
    cluster, clock = there(), Clock()
    test = f"{SPACE}/pods/llm-test-chat"
    cluster.objects[test] = pod(thing("llm-test-chat"))
    doing, _ = work(cluster, FakeHelm(cluster, (SERVICE, CLUSTER, HEAD)), clock)
    doing.go(doing.look(delete_claims=False))
    assert (cluster.deleted, doing.result.gone) == ([test], True)


def test_no_such_release_says_which_there_are() -> None:
    cluster = there()
    doing, _ = work(cluster, FakeHelm(cluster), Clock())
    doing.release = "other"
    with pytest.raises(UsageError, match=r"no release other .* llm \(inference\), kuberay"):
        doing.look(delete_claims=False)


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> FakeHelm:
    """The verb meets the cluster and Helm of this file."""
    cluster = there()
    helm = FakeHelm(cluster, (SERVICE, CLUSTER, HEAD))
    monkeypatch.setattr(down, "Cluster", lambda *_: cluster)
    monkeypatch.setattr(down, "Helm", lambda *_, **__: helm)
    return helm


def call(yes: bool, output: str = "human") -> int:
    return down.run("llm", "inference", None, None, yes, False, 60, output)  # type: ignore[arg-type]


def test_without_a_terminal_it_wants_a_yes(
    ready: FakeHelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="--yes"):
        call(yes=False)
    assert not ready.uninstalled


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_asks(
    ready: FakeHelm, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    assert call(yes=False) == code
    assert ready.uninstalled is (code == 0)


def test_json_is_one_object(ready: FakeHelm, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(yes=True, output="json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["gone"] is True
    assert said["findings"] == []
    assert "RayService llm-ray-pd-llm" in said["deleted"]


def test_an_interrupt_ends_the_waiting_only(
    ready: FakeHelm, capsys: pytest.CaptureFixture[str]
) -> None:
    ready.during = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert call(yes=True) == 130
    assert "goes on without being watched" in capsys.readouterr().err
