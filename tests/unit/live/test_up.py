"""`raypd up` from its steps: what stops it before anything is done, and how the watching ends."""

from __future__ import annotations

import copy
import functools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raypd.live import up
from raypd.live.install.facts import Facts
from raypd.live.snapshot import Snapshot
from raypd.render import ValueArguments
from raypd.report import Finding, UsageError
from unit.live import paper, snapshots

LOADING = snapshots.running(
    rayservice=snapshots.rayservice(pending="c1"), serve=snapshots.serve("DEPLOYING", 1)
)
RUNNING = snapshots.running()
FAILURE = Finding(code="RPD650", severity="error", path="p", message="Why.", remedy="Else.")


class World:
    """What the verb meets: facts of a cluster, looks that follow each other, and time that passes
    only when it is waited for."""

    def __init__(self) -> None:
        self.facts = paper.facts()
        self.after_install: Facts | None = None  # of the operator
        self.looks: list[Snapshot | Exception] = [LOADING, RUNNING]
        self.findings: list[Finding] = []
        self.status: str | None = None
        self.time = 0.0
        self.did: list[str] = []
        self.cluster = paper.FakeCluster()
        self.upgrading: Callable[[], None] = lambda: None
        self.pausing: Callable[[], None] = lambda: None

    # Helm
    def upgrade(self, release: str, chart: Path, namespace: str, arguments: ValueArguments) -> int:
        self.did.append(f"upgrade {release} {namespace} {' '.join(arguments.command_line())}")
        self.upgrading()
        return 1 if self.status is None else 2

    # time
    def pause(self, seconds: float) -> None:
        self.time += seconds
        self.pausing()

    def take(self, *_: Any) -> Snapshot:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def install_operator(self, *_: Any) -> None:
        self.did.append("operator")
        assert self.after_install is not None
        self.facts = self.after_install


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    helm = type("FakeHelm", (), {"status": lambda *_: made.status, "upgrade": made.upgrade})()
    monkeypatch.setattr(up, "Cluster", lambda *_: made.cluster)
    monkeypatch.setattr(up, "Helm", lambda *_, **__: helm)
    monkeypatch.setattr(up, "gather", lambda *_: made.facts)
    monkeypatch.setattr(up, "take", made.take)
    monkeypatch.setattr(up, "diagnose", lambda _: made.findings)
    monkeypatch.setattr(up.operator, "install", made.install_operator)
    timed = functools.partial(up.Up, now=lambda: made.time, pause=made.pause)
    monkeypatch.setattr(up, "Up", timed)
    return made


def call(capsys: pytest.CaptureFixture[str], *set_: str, **options: Any) -> tuple[int, Any, str]:
    """Exit code, the JSON object, and what was said meanwhile."""
    known: dict[str, Any] = {
        "chart": None,
        "arguments": ValueArguments(set_=list(set_)),
        "release": "llm",
        "namespace": "inference",
        "kubeconfig": None,
        "context": None,
        "with_operator": False,
        "operator_chart": None,
        "timeout": 60,
        "output": "json",
    }
    code = up.run(**{**known, **options})
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out.startswith("{") else said.out, said.err


def test_a_first_install_until_it_serves(world: World, capsys: Any) -> None:
    code, result, said = call(capsys, "decode.maxNumSeqs=8")
    assert (code, result["running"], result["revision"]) == (0, True, 1)
    assert result["endpoint"] == "http://llm-ray-pd-llm-serve-svc.inference.svc:8000/v1"
    assert result["stages"]["containers started"] == 0
    assert result["stages"]["application runs"] == result["seconds"] == 3
    assert (result["findings"], result["upgrade"]) == ([], [])
    assert world.did == ["upgrade llm inference --set decode.maxNumSeqs=8"]
    assert "application runs 1/1" in said


def test_for_people_the_end_is_an_address_and_the_next_command(world: World, capsys: Any) -> None:
    code, out, _ = call(capsys, output="human", context="prod")
    assert code == 0
    assert "http://llm-ray-pd-llm-serve-svc" in out
    assert "raypd verify --release llm -n inference --context prod" in out


def test_values_that_are_wrong_stop_it_before_the_cluster(world: World, capsys: Any) -> None:
    world.facts = None  # type: ignore[assignment]
    code, result, _ = call(capsys, "prefill.replicass=2")
    assert (code, [f["code"] for f in result["findings"]]) == (1, ["RPD101"])
    assert result["checked"]
    assert world.did == []


def test_a_cluster_that_will_not_do_stops_it_before_helm(world: World, capsys: Any) -> None:
    world.facts = paper.facts(nodes=paper.nodes()[:1], operators=[])
    code, result, _ = call(capsys)
    assert code == 1
    assert {f["code"] for f in result["findings"]} == {"RPD683", "RPD697"}
    assert world.did == []


def test_a_warning_is_said_and_does_not_stop_it(world: World, capsys: Any) -> None:
    world.facts = paper.facts(server="v1.40.0")
    code, result, said = call(capsys)
    assert (code, [f["code"] for f in result["findings"]]) == (0, ["RPD688"])
    assert "RPD688 warning" in said


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade"])
def test_a_locked_release_is_left_alone(world: World, capsys: Any, status: str) -> None:
    world.status = status
    with pytest.raises(UsageError, match="helm rollback llm -n inference"):
        call(capsys)
    assert world.did == []


def test_the_operator_is_installed_where_there_is_none(world: World, capsys: Any) -> None:
    world.after_install = world.facts
    world.facts = paper.facts(operators=[], crd=None, kinds={**paper.KINDS, "ray.io/v1": None})
    code, result, _ = call(capsys, with_operator=True)
    assert (code, result["findings"]) == (0, [])
    assert [what.split()[0] for what in world.did] == ["operator", "upgrade"]


def test_the_operator_is_not_installed_where_the_rest_would_fail(world: World, capsys: Any) -> None:
    world.facts = paper.facts(operators=[], nodes=[])
    code, result, _ = call(capsys, with_operator=True)
    assert (code, {f["code"] for f in result["findings"]}) == (1, {"RPD697"})
    assert world.did == []


def test_an_operator_that_is_there_is_left_alone(world: World, capsys: Any) -> None:
    code, _, said = call(capsys, with_operator=True)
    assert code == 0
    assert "stays as it is" in said
    assert "operator" not in world.did


def test_where_no_operator_can_be_seen_none_is_installed(world: World, capsys: Any) -> None:
    world.facts = paper.facts(operators=[], unseen={"KubeRay's operator": "you may not"})
    with pytest.raises(UsageError, match="you may not"):
        call(capsys, with_operator=True)
    assert world.did == []


def test_a_chart_for_an_operator_that_is_not_asked_for(world: World, capsys: Any) -> None:
    with pytest.raises(UsageError, match="--with-operator"):
        call(capsys, operator_chart="x.tgz")


def upgrade_of(world: World, *set_: str) -> None:
    """The release runs with these values."""
    live = paper.rendered(*set_).rayservice
    metadata = {"name": "c1", "namespace": "inference", "resourceVersion": "7"}
    running = {"metadata": metadata, "spec": copy.deepcopy(live["spec"]["rayClusterConfig"])}
    world.status = "deployed"
    world.facts = paper.facts(rayservice=live, raycluster=running)
    world.cluster.objects["/apis/ray.io/v1/namespaces/inference/rayclusters/c1"] = running
    world.looks = [RUNNING]


def test_an_upgrade_says_first_what_it_does(world: World, capsys: Any) -> None:
    upgrade_of(world)
    world.upgrading = lambda: world.did.append(capsys.readouterr().err)
    code, result, _ = call(capsys, "image.tag=other")
    assert (code, result["revision"]) == (0, 2)
    assert "upgrade.strategy is None" in result["upgrade"][0]
    assert result["upgrade"][0] in world.did[1]
    assert set(result["stages"]) == {
        "installed",
        "pods scheduled",
        "images pulled",
        "containers started",
        "application runs",
    }
    assert result["seconds"] == 3  # two looks


def test_replicas_reach_the_cluster_that_runs(world: World, capsys: Any) -> None:
    upgrade_of(world)
    nodes = [*paper.nodes(), copy.deepcopy(paper.nodes()[2])]
    nodes[3]["metadata"] |= {"name": "gpu-c"}
    nodes[3]["metadata"]["labels"]["kubernetes.io/hostname"] = "gpu-c"
    world.facts = paper.facts(**{**vars(world.facts), "nodes": nodes})
    code, result, _ = call(capsys, "prefill.replicas=2")
    assert (code, result["findings"]) == (0, [])
    (manifest,) = world.cluster.applied
    assert manifest["spec"]["workerGroupSpecs"][0]["replicas"] == 2


def held(*pods: str) -> Snapshot:
    """A look at two prefill pods, with an engine in each of the given ones."""
    document = snapshots.serve("RUNNING")
    addresses = {"llm-a": "10.0.0.1", "llm-b": "10.0.0.2"}
    document["applications"]["llm"]["deployments"]["Prefill:qwen3.5-9b"]["replicas"] = [
        {"replica_id": name, "state": "RUNNING", "node_ip": addresses[name], "start_time_s": 0.0}
        for name in pods
    ]
    made = [snapshots.pod(role) for role in ("head", "prefill", "prefill", "decode")]
    for pod, (name, address) in zip(made[1:3], addresses.items(), strict=True):
        pod["metadata"]["name"] = name
        pod["status"]["podIP"] = address
    return snapshots.running(pods=made, serve=document)


@pytest.mark.parametrize(("kept", "goes"), [("llm-a", "llm-b"), ("llm-b", "llm-a")])
def test_a_pod_goes_when_serve_has_chosen_which_engine_ends(
    world: World, capsys: Any, kept: str, goes: str
) -> None:
    upgrade_of(world, "prefill.replicas=2")
    world.looks = [
        held("llm-a", "llm-b"),
        UsageError("the API server is away"),
        held(kept),
        RUNNING,
    ]
    code, result, said = call(capsys)
    assert (code, result["findings"]) == (0, [])
    (manifest,) = world.cluster.applied
    prefill = manifest["spec"]["workerGroupSpecs"][0]
    assert (prefill["replicas"], prefill["scaleStrategy"]) == (1, {"workersToDelete": [goes]})
    assert "too many of prefill" in said


def test_where_serve_cannot_be_asked_kuberay_chooses_the_pod(world: World, capsys: Any) -> None:
    upgrade_of(world, "prefill.replicas=2")
    world.looks = [snapshots.running(serve=None)]
    _, _, said = call(capsys, timeout=1)
    (manifest,) = world.cluster.applied
    prefill = manifest["spec"]["workerGroupSpecs"][0]
    assert (prefill["replicas"], prefill["scaleStrategy"]) == (1, {})
    assert "KubeRay chooses" in said
    assert world.time >= up._SHRINK_SECONDS


def test_a_write_that_came_too_late_is_tried_again(
    world: World, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade_of(world, "decode.autoscaling.enabled=true")
    tries: list[Any] = []

    def apply(manifest: Any) -> Any:
        tries.append(manifest)
        if len(tries) == 1:
            raise UsageError("conflict")

    monkeypatch.setattr(world.cluster, "apply", apply)
    code, _, _ = call(capsys, "decode.autoscaling.enabled=true", "decode.autoscaling.maxReplicas=3")
    assert (code, len(tries)) == (0, 2)


def test_the_first_real_failure_ends_it(world: World, capsys: Any) -> None:
    world.looks = [LOADING]
    world.findings = [FAILURE]
    code, result, said = call(capsys)
    assert (code, [f["code"] for f in result["findings"]]) == (1, ["RPD650"])
    assert (result["running"], result["revision"], result["endpoint"]) == (False, 1, None)
    assert result["seconds"] == 3
    assert "RPD650 p: Why." in said


def test_a_failure_is_told_to_people_with_the_way_out(world: World, capsys: Any) -> None:
    world.looks = [LOADING]
    world.findings = [FAILURE]
    code, out, said = call(capsys, output="human")
    assert code == 1
    assert "RPD650 error" in out
    assert "raypd down --release llm -n inference" in said


def test_when_time_is_up_the_doctor_is_heard(world: World, capsys: Any) -> None:
    pending = Finding(
        code="RPD612", severity="error", path="pod p", message="No node.", remedy="One."
    )
    world.looks, world.findings = [LOADING], [pending]
    code, result, _ = call(capsys, timeout=30)
    assert (code, result["seconds"]) == (1, 33)
    waiting, late = result["findings"]
    assert (waiting["code"], late["code"]) == ("RPD612", "RPD674")
    assert "application runs 0 of 1 (Prefill:qwen3.5-9b healthy" in late["message"]


def test_an_api_server_that_is_away_for_a_while_is_waited_for(world: World, capsys: Any) -> None:
    world.looks = [LOADING, UsageError("no answer"), UsageError("no answer"), RUNNING]
    code, _, said = call(capsys)
    assert code == 0
    assert said.count("no answer") == 1


def test_an_api_server_that_stays_away_is_an_end(world: World, capsys: Any) -> None:
    world.looks = [LOADING, UsageError("no answer")]
    with pytest.raises(UsageError, match="no answer"):
        call(capsys, timeout=1000)
    assert 120 < world.time < 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_watching_and_not_the_install(
    world: World, capsys: Any, number: int
) -> None:
    world.looks = [LOADING]
    world.pausing = lambda: os.kill(os.getpid(), number)
    code, out, said = call(capsys, output="human")
    assert (code, out) == (130, "")
    assert "the install goes on" in said
    assert "raypd status --release llm -n inference" in said
    assert "raypd down --release llm -n inference" in said


def test_an_interrupt_while_helm_works_waits_for_helm(world: World, capsys: Any) -> None:
    world.upgrading = lambda: os.kill(os.getpid(), signal.SIGINT)
    code, result, _ = call(capsys)
    assert (code, result["interrupted"], result["revision"]) == (130, True, 1)
    assert "installed" in result["stages"]


def test_an_interrupt_before_helm_says_that_nothing_was_done(
    world: World, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Facts:
        os.kill(os.getpid(), signal.SIGINT)
        return world.facts

    monkeypatch.setattr(up, "gather", interrupted)
    code, _, said = call(capsys, output="human")
    assert code == 130
    assert "nothing of the release was installed" in said
    assert world.did == []
