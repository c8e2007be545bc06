"""Containers that cannot be configured or started, that end, and probes that cannot run."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis import diagnose
from unit.live.sample import (
    NAMES,
    changed,
    event,
    pod,
    rayservice,
    serve,
    snapshot,
    unready,
    waiting,
)

LOADING = {"rayservice": rayservice(ready=False), "serve": serve("DEPLOYING")}


def only(decode, **changes):
    pods = [pod("head"), pod("prefill"), decode]
    (finding,) = diagnose(snapshot(**{**LOADING, "pods": pods, **changes}))
    return finding


def ended(component="decode", state="waiting", **terminated):
    """A pod whose container ended and is backed off, or runs again."""
    made = unready(component)
    last = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-03-01T11:58:00Z", **terminated}
    status = made["status"]["containerStatuses"][0]
    status.update(restartCount=4, lastState={"terminated": last})
    if state == "waiting":
        status["state"] = {
            "waiting": {
                "reason": "CrashLoopBackOff",
                "message": "back-off 1m20s restarting failed container=ray-worker pod=...",
            }
        }
    return made


@pytest.mark.parametrize(("restarts", "severity"), [(1, "warning"), (5, "error")])
def test_a_head_without_its_redis(restarts, severity):
    """Ray retries a refused connection for a minute, and ends at once without the name's address."""
    log = (
        "[2026-12-02 05:37:58,027 C 30378 30378] (ray_init) redis_store_client.cc:129:  An unexpected "
        "system state has occurred. You have likely discovered a bug in Ray. Check failed: "
        "primary_context_->Connect(options.ip) Status not OK: RedisError: Failed to resolve DNS for "
        "redis.nowhere.svc:6379: resolve: Host not found. Failed to connect to Redis.\n"
        "*** StackTrace Information ***\n/lib/libc.so.6(__libc_start_main+0x85) __libc_start_main\n"
    )
    head = ended("head", state="running")
    head["status"]["containerStatuses"][0]["restartCount"] = restarts
    name = f"{head['metadata']['name']}/{head['status']['containerStatuses'][0]['name']}"
    (finding,) = diagnose(
        snapshot(**LOADING, pods=[head, pod("prefill"), pod("decode")], crash_logs={name: log})
    )
    assert (finding.code, finding.severity) == ("RPD632", severity)
    assert "cannot reach its Redis" in finding.message
    assert "Failed to resolve DNS for redis.nowhere.svc:6379" in finding.message
    assert "libc" not in finding.message
    assert "gcsFaultTolerance.redisAddress" in finding.remedy


def test_ray_that_gives_up_is_told_without_its_stack():
    log = (
        "[2026-12-02 05:37:58,027 C 7 7] (raylet) node_manager.cc:1: Check failed: disk is full\n"
        "*** StackTrace Information ***\n/bin/raylet(main+0x1) main\n"
    )
    decode = ended()
    name = f"{decode['metadata']['name']}/ray-worker"
    assert "(restarts: 4): disk is full" in only(decode, crash_logs={name: log}).message


def test_a_secret_that_is_missing():
    words = 'secret "hf-token" not found'
    finding = only(waiting("decode", "CreateContainerConfigError", words))
    assert finding.code == "RPD630"
    assert "secret hf-token, which is not in namespace inference" in finding.message
    assert (
        "kubectl -n inference create secret generic hf-token --from-literal=HF_TOKEN=..."
        in finding.remedy
    )


def test_a_key_that_is_missing():
    words = "couldn't find key HF_TOKEN in Secret inference/hf-token"
    finding = only(waiting("decode", "CreateContainerConfigError", words))
    assert finding.code == "RPD630"
    assert "key HF_TOKEN of the secret hf-token" in finding.message
    assert "huggingface.existingSecret.key" in finding.remedy


def test_a_config_map_that_a_volume_names():
    waits = waiting("decode", "ContainerCreating")
    words = 'MountVolume.SetUp failed for volume "extra" : configmap "extra" not found'
    finding = only(waits, events=[event("Pod", waits, "FailedMount", words)])
    assert finding.code == "RPD630"
    assert "create configmap extra" in finding.remedy


def test_a_container_that_cannot_be_configured_for_another_reason():
    words = (
        "container has runAsNonRoot and image will run as root (pod: ..., container: ray-worker)"
    )
    finding = only(waiting("decode", "CreateContainerConfigError", words))
    assert finding.code == "RPD639"
    assert words in finding.message


def test_killed_for_memory():
    finding = only(ended(exitCode=137, reason="OOMKilled"))
    assert finding.code == "RPD631"
    assert "limit of 96Gi" in finding.message
    assert "decode.resources.memory" in finding.remedy


def test_the_heads_memory_is_another_value_and_stops_everything():
    head = ended("head", exitCode=137, reason="OOMKilled")
    (finding,) = diagnose(
        snapshot(
            rayservice=rayservice(ready=False),
            pods=[head, ended("prefill"), pod("decode")],
            serve=serve("DEPLOY_FAILED", "RuntimeError: it is all over"),
        )
    )
    assert finding.code == "RPD631"
    assert "head.resources.memory" in finding.remedy


def test_what_follows_is_named():
    head = ended("head", exitCode=137, reason="OOMKilled")
    (finding,) = diagnose(
        snapshot(
            rayservice=rayservice(ready=False),
            pods=[head, pod("prefill"), pod("decode")],
            serve=serve(
                decode={
                    **serve()["applications"]["llm"]["deployments"]["Decode:qwen3.5-9b"],
                    "status": "UNHEALTHY",
                    "message": "A replica's health check failed.",
                }
            ),
        )
    )
    assert "What follows from it: deployment Decode:qwen3.5-9b" in finding.message


def test_an_end_of_long_ago_is_history():
    again = ended(state="running", finishedAt="2026-03-01T11:00:00Z", reason="OOMKilled")
    pods = [pod("head"), pod("prefill"), again]
    assert diagnose(snapshot(**LOADING, pods=pods)) == []


def test_a_container_that_is_ready_again_is_no_finding():
    back = changed(pod("decode"), "status: {phase: Running}")
    back["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-03-01T11:59:00Z"}
    }
    assert diagnose(snapshot(pods=[pod("head"), pod("prefill"), back])) == []


CRASH = """\
2026-03-01 11:57:58,101 INFO scripts.py:1047 -- Local node IP: 10.0.3.30
Traceback (most recent call last):
  File "/usr/local/bin/ray", line 7, in <module>
    sys.exit(main())
RuntimeError: Version mismatch: The cluster was started with: Ray: 2.58.0. This process: Ray: 2.57.0
"""


def test_a_crash_with_its_last_words():
    finding = only(ended(), crash_logs={f"{NAMES['decode']}/ray-worker": CRASH})
    assert finding.code == "RPD632"
    assert "RuntimeError: Version mismatch" in finding.message
    assert "Local node IP" not in finding.message
    assert f"logs {NAMES['decode']} -c ray-worker --previous" in finding.remedy


def test_a_raylet_that_is_slow_to_start_gets_another_try():
    log = (
        "Exception: The current node timed out during startup. This could happen because some of the "
        "raylet failed to startup or the GCS has become overloaded.\n"
    )
    slow = ended()
    pods, logs = [pod("head"), pod("prefill"), slow], {f"{NAMES['decode']}/ray-worker": log}
    slow["status"]["containerStatuses"][0]["restartCount"] = 1
    assert diagnose(snapshot(**LOADING, pods=pods, crash_logs=logs)) == []
    slow["status"]["containerStatuses"][0]["restartCount"] = 3
    (finding,) = diagnose(snapshot(**LOADING, pods=pods, crash_logs=logs))
    assert finding.code == "RPD632"
    assert "timed out during startup" in finding.message


def test_a_crash_without_words():
    assert "says nothing" in only(ended()).message


def test_an_init_container_that_fails_hides_what_waits_for_it():
    made = changed(
        waiting("decode", "PodInitializing"),
        """
        status:
          initContainerStatuses:
            - name: cache-owner
              image: x
              restartCount: 3
              containerID: containerd://1
              state: {waiting: {reason: CrashLoopBackOff}}
              lastState: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-03-01T11:59:00Z"}}
        """,
    )
    log = "chown: changing ownership of '/cache': Operation not permitted\n"
    finding = only(made, crash_logs={f"{NAMES['decode']}/cache-owner": log})
    assert finding.code == "RPD632"
    assert "Operation not permitted" in finding.message


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed:"
            " runc create failed: unable to start container process: error during container init: "
            'exec: "/bin/bash": stat /bin/bash: no such file or directory',
            "/bin/bash",
        ),
        ("bash: line 1: ray: command not found", "ray"),
        ("/bin/sh: 1: ray: not found", "ray"),
    ],
)
def test_an_image_without_a_program(words, program):
    finding = only(ended(exitCode=127, reason="StartError", message=words))
    assert finding.code == "RPD633"
    assert f"lacks the program {program}" in finding.message


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (
            "Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = "
            'failed to exec in container: failed to start exec "0a": OCI runtime exec failed: exec '
            'failed: unable to start container process: exec: "bash": executable file not found in '
            "$PATH",
            "bash",
        ),
        ("Readiness probe failed: bash: line 1: wget: command not found", "wget"),
    ],
)
def test_a_probe_without_its_program(words, program):
    runs = unready("decode")
    said = event("Pod", runs, "Unhealthy", words, field="spec.containers{ray-worker}")
    finding = only(runs, events=[said])
    assert finding.code == "RPD633"
    assert f"lacks the program {program}" in finding.message
    assert "ray-worker" in finding.message


def test_a_worker_that_is_not_ready_while_it_loads_is_no_finding():
    runs = unready("decode")
    said = event("Pod", runs, "Unhealthy", "Readiness probe failed: success\n")
    pods = [pod("head"), unready("prefill"), runs]
    assert diagnose(snapshot(**LOADING, pods=pods, events=[said])) == []


def test_killed_by_its_liveness_probe():
    killed = ended(exitCode=137)
    said = [
        event(
            "Pod",
            killed,
            "Killing",
            "Container ray-worker failed liveness probe, will be restarted",
        ),
        event(
            "Pod",
            killed,
            "Unhealthy",
            'Liveness probe failed: Get "http://10.0.3.30:52365/api/healthz": context deadline '
            "exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
    ]
    finding = only(killed, events=said)
    assert finding.code == "RPD637"
    assert "context deadline exceeded" in finding.message
    assert "decode.resources.cpu" in finding.remedy


def _waits_for_head():
    return changed(
        waiting("decode", "PodInitializing"),
        """
        status:
          initContainerStatuses:
            - name: wait-gcs-ready
              image: x
              containerID: containerd://1
              state: {running: {startedAt: "2026-03-01T11:50:00Z"}}
        """,
    )


def test_a_worker_that_cannot_reach_a_head_that_is_ready():
    finding = only(_waits_for_head())
    assert finding.code == "RPD636"
    assert "NetworkPolicy" in finding.remedy


def test_a_worker_that_waits_for_a_head_that_starts_is_no_finding():
    pods = [unready("head"), _waits_for_head()]
    whole = snapshot(rayservice=rayservice(ready=False), pods=pods, serve=None)
    assert diagnose(whole) == []


def test_evicted():
    out = pod("decode")
    out["status"] = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 8Gi, "
        "available: 7Gi.",
    }
    finding = only(out)
    assert finding.code == "RPD638"
    assert "ephemeral-storage" in finding.message


def test_a_subnet_without_addresses():
    waits = waiting("decode", "PodInitializing")
    words = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for "
        'sandbox "0a": plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign '
        "an IP address to container"
    )
    finding = only(waits, events=[event("Pod", waits, "FailedCreatePodSandBox", words)])
    assert finding.code == "RPD639"
    assert "ENABLE_PREFIX_DELEGATION" in finding.remedy


def test_a_prefetch_job_that_may_not_read_the_model():
    prefetch = changed(
        ended(), "metadata: {name: fetch, labels: {app.kubernetes.io/component: prefetch-decode}}"
    )
    log = (
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1)\n"
        "Cannot access gated repo for url https://huggingface.co/api/models/x.\n"
    )
    pods = [pod("head"), pod("prefill"), pod("decode"), prefetch]
    (finding,) = diagnose(snapshot(pods=pods, crash_logs={"fetch/ray-worker": log}))
    assert finding.code == "RPD653"


def test_failed_tries_of_a_job_that_is_complete_are_history():
    failed = changed(
        ended(),
        "metadata: {name: fetch, ownerReferences: [{kind: Job, name: fetch}],"
        " labels: {app.kubernetes.io/component: prefetch-decode}}",
    )
    job = {
        "metadata": {"name": "fetch"},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    }
    pods = [pod("head"), pod("prefill"), pod("decode"), failed]
    assert diagnose(snapshot(pods=pods, jobs=[job])) == []


def test_the_pod_of_helm_test_is_no_part_of_the_release():
    test = changed(ended(), "metadata: {labels: {app.kubernetes.io/component: test}}")
    pods = [pod("head"), pod("prefill"), pod("decode"), test]
    assert diagnose(snapshot(pods=pods)) == []
