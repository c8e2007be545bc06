"""Engines that fail or hang: the engine's own first error, and nothing that follows from it."""

from __future__ import annotations

from raypd.live.diagnosis import diagnose
from unit.live.sample import (
    NAMES,
    WORKERS,
    deployment,
    log,
    pod,
    rayservice,
    replica,
    serve,
    snapshot,
    unready,
)

LOADING = rayservice(ready=False)
PODS = [pod("head"), unready("prefill"), unready("decode")]
SHORT_OF_KV = (
    "ValueError: To serve at least one request with the model's max seq len (32768), (4.5 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (1.12 GiB). Based on the "
    "available memory, the estimated maximum model length is 8144. Try increasing ..."
)
REPLICA_DIED = """\
The deployment failed to start 3 times in a row. This may be due to a problem with its constructor or \
initial health check failing. See controller logs for details. Error:
\x1b[36mray::ServeReplica:llm:Decode:qwen3.5-9b.initialize_and_get_metadata()\x1b[39m (pid=143)
  File "/usr/local/lib/python3.13/site-packages/ray/serve/_private/replica.py", line 1, in x
    raise RuntimeError(traceback.format_exc()) from None
RuntimeError: Traceback (most recent call last):
  File "/usr/local/lib/python3.13/site-packages/vllm/v1/engine/utils.py", line 1273, in x
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def engine_lines(
    *lines: str, stamp: str = "03-01 11:59:02", process: str = "EngineCore pid=77"
) -> str:
    return "\n".join(f"({process}) ERROR {stamp} [core.py:1136] {line}" for line in lines)


def failing(log_text: str, role: str = "decode", message: str = REPLICA_DIED, **more):
    parts = {role: deployment(role, "DEPLOY_FAILED", message, state="STOPPING")}
    for other in {"prefill", "decode"} - {role}:
        parts[other] = deployment(other, "UPDATING", state="STARTING")
    return snapshot(
        rayservice=LOADING,
        pods=PODS,
        serve=serve("DEPLOY_FAILED", "The deployments ['Decode'] are UNHEALTHY.", **parts),
        engine_logs={NAMES[role]: log_text},
        **more,
    )


def test_no_room_for_the_kv_cache_is_the_one_finding():
    text = engine_lines("EngineCore failed to start.", "Traceback ...", SHORT_OF_KV)
    (finding,) = diagnose(failing(log("decode", text)))
    assert finding.code == "RPD651"
    assert finding.path == f"pod inference/{NAMES['decode']}"
    assert SHORT_OF_KV in finding.message
    assert "8144" in finding.remedy
    assert "decode.gpuMemoryUtilization" in finding.remedy
    assert "application llm" in finding.message  # as what follows


def test_an_error_that_is_not_known_is_told_as_it_is():
    text = engine_lines("Traceback ...", "KeyError: 'model.layers.0'")
    (finding,) = diagnose(failing(log("decode", text)))
    assert finding.code == "RPD650"
    assert "KeyError: 'model.layers.0'" in finding.message


def test_the_error_of_the_run_that_failed_last():
    before = log("decode", engine_lines(SHORT_OF_KV, stamp="03-01 11:40:00"))
    newest = log("decode", engine_lines("RuntimeError: No CUDA GPUs are available")).replace(
        WORKERS["decode"], "f" * 56
    )
    dead = deployment("decode", "DEPLOY_FAILED", REPLICA_DIED, state="STOPPING")
    dead["recent_dead_replicas"] = [
        replica("decode", "decode", "STOPPED", seconds=1200),
        {**replica("decode", "decode", "STOPPED", seconds=60), "worker_id": "f" * 56},
    ]
    whole = snapshot(
        rayservice=LOADING,
        pods=PODS,
        serve=serve("DEPLOY_FAILED", decode=dead),
        engine_logs={NAMES["decode"]: before + newest},
    )
    (finding,) = diagnose(whole)
    assert finding.code == "RPD658"


def test_nixls_bare_code_is_explained_by_the_line_before():
    text = (
        "E0301 11:59:06.513791    6350 nixl_agent.cpp:322] createBackend: unsupported backend "
        "'LIBFABRIC'\n"
        + engine_lines(
            "WorkerProc hit an exception.",
            "nixl_cu13._bindings.nixlNotFoundError: NIXL_ERR_NOT_FOUND",
            process="Worker pid=99",
        )
    )
    (finding,) = diagnose(failing(log("decode", text)))
    assert finding.code == "RPD660"
    assert "LIBFABRIC" in finding.message


GATED = """\
A replica failed to start with exception. Retrying 2 more time(s). Error:
\x1b[36mray::ServeReplica:llm:Prefill:qwen3.5-9b.initialize_and_get_metadata()\x1b[39m (pid=143)
huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1)

Cannot access gated repo for url https://huggingface.co/api/models/meta-llama/Llama-3.1-8B.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
OSError: You are trying to access a gated repo.
Make sure to have access to it at https://huggingface.co/meta-llama/Llama-3.1-8B.
"""


def test_an_error_before_there_is_an_engine_is_in_serves_message_alone():
    whole = failing("", role="prefill", message=GATED)
    (finding,) = diagnose(whole)
    assert finding.code == "RPD653"
    assert finding.path == "deployment Prefill:qwen3.5-9b of application llm"
    assert "You are trying to access a gated repo" in finding.message


def test_the_first_of_three_tries_is_told_already():
    parts = {"prefill": deployment("prefill", "UPDATING", GATED, state="STARTING")}
    whole = snapshot(rayservice=LOADING, pods=PODS, serve=serve("DEPLOYING", **parts))
    assert [finding.code for finding in diagnose(whole)] == ["RPD653"]


def test_both_roles_with_one_error_are_one_finding():
    parts = {
        role: deployment(role, "DEPLOY_FAILED", REPLICA_DIED, state="STOPPING")
        for role in ("prefill", "decode")
    }
    whole = snapshot(
        rayservice=LOADING,
        pods=PODS,
        serve=serve("DEPLOY_FAILED", **parts),
        engine_logs={NAMES[r]: log(r, engine_lines(SHORT_OF_KV)) for r in ("prefill", "decode")},
    )
    (finding,) = diagnose(whole)
    assert NAMES["prefill"] in finding.path
    assert NAMES["decode"] in finding.path
    assert "<role>.gpuMemoryUtilization" in finding.remedy


def test_a_deployment_that_does_not_pass_its_health_check():
    words = (
        "A replica's health check failed. This deployment will be UNHEALTHY until the replica "
        "recovers or a new deploy happens."
    )
    whole = snapshot(serve=serve("UNHEALTHY", decode=deployment("decode", "UNHEALTHY", words)))
    (finding,) = diagnose(whole)
    assert finding.code == "RPD642"
    assert "health check failed" in finding.message


def test_loading_is_no_finding():
    slow = (
        "Deployment 'Decode:qwen3.5-9b' in application 'llm' has 1 replicas that have taken more than "
        "30s to initialize.\nThis may be caused by a slow __init__ or reconfigure method."
    )
    parts = {
        "decode": deployment("decode", "UPDATING", slow, state="STARTING"),
        "prefill": deployment("prefill", "UPDATING", state="STARTING"),
    }
    text = (
        "(Worker pid=9) Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:12<00:18]"
    )
    whole = snapshot(
        rayservice=LOADING,
        pods=PODS,
        serve=serve("DEPLOYING", **parts),
        engine_logs={NAMES["decode"]: log("decode", text, "err")},
    )
    assert diagnose(whole) == []


def test_errors_of_a_replica_that_was_replaced_by_one_that_runs_are_history():
    text = engine_lines(SHORT_OF_KV)
    assert diagnose(snapshot(engine_logs={NAMES["decode"]: log("decode", text)})) == []


SIDE_CHANNEL = """\
(EngineCore pid=599) Exception in thread nixl_handshake_listener:
(EngineCore pid=599) Traceback (most recent call last):
(EngineCore pid=599)   File "/usr/lib/python3.13/threading.py", line 1043, in _bootstrap_inner
(EngineCore pid=599) zmq.error.ZMQError: Address already in use (addr='tcp://10.0.3.30:22000')
"""


def test_an_engine_that_waits_for_a_dead_thread_hangs_without_failing():
    parts = {"decode": deployment("decode", "UPDATING", state="STARTING")}
    whole = snapshot(
        rayservice=LOADING,
        pods=PODS,
        serve=serve("DEPLOYING", **parts),
        engine_logs={NAMES["decode"]: log("decode", SIDE_CHANNEL, "err")},
    )
    (finding,) = diagnose(whole)
    assert finding.code == "RPD665"
    assert "waits for ever" in finding.message
    assert "10.0.3.30:22000" in finding.message


def test_a_pod_that_crashes_for_its_own_reason_hides_what_serve_says_of_it():
    crashed = unready("decode")
    status = crashed["status"]["containerStatuses"][0]
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    status["lastState"] = {
        "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T11:59:00Z"}
    }
    whole = snapshot(
        rayservice=LOADING,
        pods=[pod("head"), unready("prefill"), crashed],
        serve=serve(
            "UNHEALTHY", decode=deployment("decode", "UNHEALTHY", "The actor died unexpectedly.")
        ),
    )
    (finding,) = diagnose(whole)
    assert finding.code == "RPD631"
    assert "Decode:qwen3.5-9b" in finding.message


def test_two_causes_are_two_findings_the_earlier_stage_first():
    waits = unready("prefill")
    waits["status"]["containerStatuses"][0]["state"] = {
        "waiting": {
            "reason": "CreateContainerConfigError",
            "message": 'secret "hf-token" not found',
        }
    }
    whole = snapshot(
        rayservice=LOADING,
        pods=[pod("head"), waits, unready("decode")],
        serve=serve(
            "DEPLOY_FAILED",
            decode=deployment("decode", "DEPLOY_FAILED", REPLICA_DIED, state="STOPPING"),
        ),
        engine_logs={NAMES["decode"]: log("decode", engine_lines(SHORT_OF_KV))},
    )
    assert [finding.code for finding in diagnose(whole)] == ["RPD630", "RPD651"]


def test_kuberays_view_will_do_where_the_dashboard_does_not_answer():
    failed = rayservice(ready=False)
    failed["status"]["pendingServiceStatus"]["applicationStatuses"] = {
        "llm": {
            "status": "DEPLOY_FAILED",
            "message": "",
            "serveDeploymentStatuses": {
                "Decode:qwen3.5-9b": {"status": "DEPLOY_FAILED", "message": REPLICA_DIED}
            },
        }
    }
    whole = snapshot(
        rayservice=failed,
        pods=[unready("head"), unready("prefill"), unready("decode")],
        serve=None,
        serve_unreachable="timed out",
        engine_logs={NAMES["decode"]: log("decode", engine_lines(SHORT_OF_KV))},
    )
    assert [finding.code for finding in diagnose(whole)] == ["RPD651"]
