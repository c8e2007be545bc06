"""Faults under a steady stream of requests: nothing is answered wrongly, and all comes back.

`--write-faults docs/faults.md` writes what was measured into that page.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator

import pytest
import yaml
from kubernetes import client, utils

from cluster import faults
from cluster.conftest import REFERENCE
from cluster.devcluster import images, lifecycle
from cluster.faults import Outcome
from cluster.load import streaming
from cluster.release import NAMESPACE, Release, is_ready

COMES_BACK_SECONDS = 600  # on a small and busy machine; half of the faults start an engine anew
IN_A_ROW = 6  # right answers that show that the service is back
BEFORE_SECONDS = 8
REDIS_SECONDS = 60
API_SERVER_DOWN_SECONDS = 10
ENGINE = "^VLLM::EngineCore"
pytestmark = pytest.mark.timeout(3 * COMES_BACK_SECONDS + 300)

REDIS = """
apiVersion: v1
kind: Secret
metadata: {name: redis, namespace: inference}
stringData: {password: GENERATED}
---
apiVersion: v1
kind: Pod
metadata: {name: redis, namespace: inference, labels: {app: redis}}
spec:
  nodeSelector: {role: system}
  terminationGracePeriodSeconds: 5
  containers:
    - name: redis
      image: IMAGE
      command: [sh, -c, 'exec redis-server --protected-mode no --requirepass "$PASSWORD"']
      workingDir: /tmp
      env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: redis, key: password}}}]
      readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: redis, namespace: inference}
spec: {selector: {app: redis}, ports: [{port: 6379}]}
"""


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[list[Outcome]]:
    """What was measured, in the order of the tests."""
    measured: list[Outcome] = []
    yield measured
    if measured and (file := request.config.getoption("--write-faults")):
        faults.write(file, faults.run(measured))


@pytest.fixture
def with_redis(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The reference deployment with the state of Ray's head in a Redis."""
    if not release.target.simulated:
        pytest.skip("needs an image with redis-server")
    text = REDIS.replace("IMAGE", images.runtime().name).replace("GENERATED", secrets.token_hex(8))
    utils.create_from_yaml(
        release.target.core.api_client, yaml_objects=list(yaml.safe_load_all(text))
    )
    core = release.target.core
    release.wait(
        "Redis", lambda: is_ready(core.read_namespaced_pod("redis", NAMESPACE)), REDIS_SECONDS
    )
    values = tmp_path_factory.mktemp("values") / "redis.yaml"
    address = f"redis.{NAMESPACE}.svc:6379"
    fault_tolerance = {
        "enabled": True,
        "redisAddress": address,
        "passwordSecret": {"name": "redis"},
    }
    values.write_text(yaml.safe_dump({"gcsFaultTolerance": fault_tolerance}))
    release.serve(REFERENCE, values)
    yield release
    release.clear()  # first: KubeRay removes what it kept in the Redis
    core.delete_namespaced_pod("redis", NAMESPACE)
    core.delete_namespaced_service("redis", NAMESPACE)
    core.delete_namespaced_secret("redis", NAMESPACE)


def test_the_api_server_restarts(reference, outcomes):
    made = reference.target.made
    if not made:
        pytest.skip("about the devcluster's API server")
    before = _everything(reference)
    outcome = _under_load(
        reference,
        "API server stopped for 10 s",
        lambda: lifecycle.restart_api_server(made, API_SERVER_DOWN_SECONDS),
        lambda: True,
        outcomes,
    )
    assert outcome.ok == outcome.sent
    assert _everything(reference) == before


@pytest.mark.slow
def test_prefills_engine_is_killed(reference, outcomes):
    pod = reference.pod("prefill")
    before = reference.execute(pod, f"pgrep -f {ENGINE}").split()
    pods = _everything(reference)
    assert before

    def another_runs() -> bool:
        now = reference.execute(pod, f"pgrep -f {ENGINE}").split()
        return bool(now) and not set(now) & set(before)

    _under_load(
        reference,
        "prefill's engine process killed",
        lambda: reference.execute(pod, f"pkill -KILL -f {ENGINE}"),
        another_runs,
        outcomes,
    )
    assert _everything(reference) == pods


@pytest.mark.slow
def test_a_kubelet_stops(reference, outcomes):
    made = reference.target.made
    if not made:
        pytest.skip("about the devcluster's kubelets")
    node = reference.pod("decode").spec.node_name
    before = _everything(reference)

    def strike() -> None:
        try:
            lifecycle.stop_kubelet(made, node)
        finally:
            lifecycle.start_kubelet_again(made, node)

    _under_load(
        reference,
        "kubelet of decode's node stopped until the node is lost",
        strike,
        lambda: True,
        outcomes,
    )
    assert _everything(reference) == before


@pytest.mark.slow
def test_prefills_pod_is_deleted(reference, outcomes):
    _delete(reference, "prefill", "prefill's pod deleted", outcomes)


@pytest.mark.slow
def test_decodes_pod_is_deleted(reference, outcomes):
    _delete(reference, "decode", "decode's pod deleted", outcomes)


@pytest.mark.slow
def test_the_head_is_deleted(reference, outcomes):
    _delete(reference, "head", "head pod deleted", outcomes)


@pytest.mark.slow
def test_the_head_is_deleted_with_its_state_in_redis(with_redis, outcomes):
    workers = {role: with_redis.uids(role) for role in ("prefill", "decode")}
    engines = {role: with_redis.engines(role) for role in workers}
    _delete(with_redis, "head", "head pod deleted, its state in Redis", outcomes)
    assert {role: with_redis.uids(role) for role in workers} == workers
    assert {role: with_redis.engines(role) for role in workers} == engines


def _delete(release: Release, component: str, name: str, outcomes: list[Outcome]) -> None:
    pod: client.V1Pod = release.pod(component)

    def strike() -> None:
        release.target.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)

    _under_load(
        release,
        name,
        strike,
        lambda: not release.uids(component) & {pod.metadata.uid},
        outcomes,
    )


def _under_load(
    release: Release,
    name: str,
    strike: Callable[[], object],
    struck: Callable[[], bool],
    outcomes: list[Outcome],
) -> Outcome:
    """Strikes while requests come, waits until all is back, and judges every answer.

    `struck` tells that the fault has had its effect: before that, all being well means nothing.
    """
    endpoint = release.endpoint()
    endpoint.learn()
    with streaming(endpoint) as stream:
        time.sleep(BEFORE_SECONDS)
        since = time.monotonic()
        strike()
        release.wait(f"{name}: its effect", struck, COMES_BACK_SECONDS)
        release.wait(f"{name}: every pod back", release.whole, COMES_BACK_SECONDS)
        back = time.monotonic()
        release.wait(
            f"{name}: answers again", lambda: stream.in_a_row(back) >= IN_A_ROW, COMES_BACK_SECONDS
        )
    stream.judge_unseen()
    outcome = Outcome.of(name, stream, since)
    outcomes.append(outcome)
    wrong = [sent for sent in stream.sent if sent.outcome == "wrong"]
    assert not wrong
    assert outcome.sent == outcome.ok + outcome.error + outcome.hung
    return outcome


def _everything(release: Release) -> dict[str, set[str]]:
    return {role: release.uids(role) for role in ("head", "prefill", "decode")}
