"""The serve config of every values file, taken by the real argument classes of Ray and vLLM."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from raypd.render import ValueArguments, default_chart, render
from raypd.toolchain import runtime_python

VALUES_FILES = sorted((Path(__file__).resolve().parents[2] / "values").glob("*.yaml"))

# Run by the CPU runtime's Python: what build_pd_openai_app and build_openai_app do with their
# arguments before anything is deployed. Prints model id, bundles and strategy of every engine.
PROGRAM = """
import json, sys
from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs

for name, application in json.load(sys.stdin).items():
    if application["import_path"] == "ray.serve.llm:build_pd_openai_app":
        taken = PDServingArgs.model_validate(application["args"])
        configs = {"prefill": taken.prefill_config, "decode": taken.decode_config}
    else:
        taken = LLMServingArgs.model_validate(application["args"])
        configs = {"engine": taken.llm_configs[0]}
    engines = {
        role: [c.model_id, c.get_engine_config().placement_bundles, c.get_engine_config().placement_strategy]
        for role, c in configs.items()
    }
    print("TAKEN", json.dumps([name, engines]))
"""


@pytest.fixture(scope="module")
def taken() -> dict[str, dict[str, list]]:
    """Values file to role to what the real classes made of it."""
    applications = {
        file.stem: render(default_chart(), ValueArguments([file])).serve_config["applications"][0]
        for file in VALUES_FILES
    }
    done = subprocess.run(
        [runtime_python(), "-c", PROGRAM],
        input=json.dumps(applications),
        env={**os.environ, "PYTHONPATH": str(default_chart() / "files")},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    lines = [line[6:] for line in done.stdout.splitlines() if line.startswith("TAKEN ")]
    return dict(json.loads(line) for line in lines)


@pytest.mark.parametrize("name", [file.stem for file in VALUES_FILES])
def test_real_classes_take_it_and_place_it_on_its_role(taken, name):
    for role, (_, bundles, _) in taken[name].items():
        assert bundles and all(bundle[role] == 1 and bundle["CPU"] == 1 for bundle in bundles)
        assert all(("GPU" in bundle) is (name != "local-cpu") for bundle in bundles)


def test_engines_that_fit_a_pod_are_packed_into_it(taken):
    for name, engines in taken.items():
        wanted = "PACK" if "multinode" in name else "STRICT_PACK"
        assert {strategy for _, _, strategy in engines.values()} == {wanted}


# What Ray does when an engine's process starts, what Serve then does, and then what vLLM does. Prints
# whether Serve's log file is still there.
LOGGING_PROGRAM = """
import logging.handlers, sys
from ray._private.runtime_env.setup_hook import load_and_execute_setup_hook

for hook in sys.argv[1:]:
    error = load_and_execute_setup_hook(hook)
    assert error is None, error
handler = logging.handlers.MemoryHandler(1, target=logging.StreamHandler())
logging.getLogger("ray.serve").addHandler(handler)
import vllm.logger
from vllm.distributed.nixl_utils import NixlWrapper
print("KEPT" if handler.target else "CLOSED")
"""


def _serves_log_after(*hooks: str) -> str:
    done = subprocess.run(
        [runtime_python(), "-c", LOGGING_PROGRAM, *hooks],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_engines_keep_the_log_that_serve_recovers_them_by():
    serve_config = render(default_chart(), ValueArguments()).serve_config
    (application,) = serve_config["applications"]
    for role in ("prefill", "decode"):
        variables = application["args"][f"{role}_config"]["runtime_env"]["env_vars"]
        assert _serves_log_after(*variables.values()) == "KEPT"


def test_without_the_hook_the_log_is_closed():
    """When this fails, the versions in use no longer need `ray-pd-llm.loggingFirst`."""
    assert _serves_log_after() == "CLOSED"


# What an engine on GPUs does in a process of its own: it enters Ray's cluster with the runtime environment
# that its replica has, made as Ray Serve LLM makes it. Prints what Ray says to that.
ENTERING_PROGRAM = """
import json, sys, tempfile
import ray
from ray._private.runtime_env.setup_hook import upload_worker_process_setup_hook_if_needed
from ray.llm._internal.serve.core.server.llm_server import LLMServer
from ray.serve.llm import LLMConfig

with tempfile.TemporaryDirectory(prefix="ray-") as folder:
    ray.init(num_cpus=1, include_dashboard=False, _temp_dir=folder)
    for config in json.load(sys.stdin):
        options = LLMServer.get_deployment_options(LLMConfig.model_validate(config))
        upload_worker_process_setup_hook_if_needed(options["ray_actor_options"]["runtime_env"], None)
        print("ENTERED")
    ray.shutdown()
"""


def test_an_engine_on_gpus_may_enter_the_cluster_with_the_runtime_environment_of_its_replica(
    tmp_path,
):
    configs = []
    for file in VALUES_FILES:
        args = render(default_chart(), ValueArguments([file])).serve_config["applications"][0][
            "args"
        ]
        configs += args.get("llm_configs") or [args["prefill_config"], args["decode_config"]]
    done = subprocess.run(
        [runtime_python(), "-c", ENTERING_PROGRAM],
        input=json.dumps(configs),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ENTERED") == len(configs)
