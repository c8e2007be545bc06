"""The serve config of every values file, taken by the real argument classes of Ray and vLLM."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from raypd.render import ValueArguments, default_chart, render
from raypd.toolchain import cpu_python

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
        [cpu_python(), "-c", PROGRAM],
        input=json.dumps(applications),
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
