"""The command line: exit codes, one sentence for a mistake, and a start that loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from raypd.cli import main

HEAVY = (
    *("pydantic", "rich", "yaml", "httpx", "jsonschema", "pyhelm3", "openai", "psutil"),
    *("kubernetes", "websocket", "matplotlib", "numpy", "boto3", "botocore"),
)
VALUES = Path(__file__).parents[2] / "values"


def raypd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raypd", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_loads_no_heavy_module() -> None:
    code = (
        "import sys, raypd.cli\n"
        "sys.argv = ['raypd', '--help']\n"
        "try: raypd.cli.main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    verbs = "render lint import plan preflight upgrade-plan conformance local status doctor"
    for verb in verbs.split():
        assert verb in done.stdout


def test_version() -> None:
    done = raypd("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("raypd ")


def test_lint_of_the_defaults_passes() -> None:
    done = raypd("lint", "--output", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, [])
    assert report["checked"]
    assert report["not_checked"]


def test_lint_tells_findings_with_code_1() -> None:
    done = raypd("lint", "--set", "prefill.replicass=2", "--output", "json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    assert (finding["code"], finding["path"]) == ("RPD101", "prefill.replicass")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lint", "-f", "no-such.yaml"], "no-such.yaml"),
        (["lint", "--chart", "no-such-chart"], "no-such-chart"),
        (["lint", "--manifest", "no-such.yaml"], "no-such.yaml"),
        (["lint", "--manifest", "x.yaml", "--set", "a=b"], "--manifest"),
        (["lint", "--eksctl", "no-such.yaml"], "no-such.yaml"),
        (["lint", "--karpenter", "no-such.yaml"], "no-such.yaml"),
        (["lint", "--manifest", "x.yaml", "--karpenter", "y.yaml"], "--manifest"),
        (["import"], "FILE"),
        (["import", "no-such.yaml"], "no-such.yaml"),
        (["import", "no-such.yaml", "-o", __file__], "--force"),
        (["render", "--release", "Not_A_Name"], "release name"),
        (["render", "--set-json", "a={"], "Helm cannot use"),
        (["render", "--no-such-option"], "--no-such-option"),
        (["preflight", "--eksctl", "no-such.yaml"], "no-such.yaml"),
        (["preflight", "--profile", "no-such-profile"], "no-such-profile"),
        (["status", "--kubeconfig", "no-such-kubeconfig"], "no-such-kubeconfig"),
        (["doctor", "--kubeconfig", "no-such-kubeconfig"], "--kubeconfig"),
        (["plan", "no/such-model"], "config.json"),
        (["plan", "Qwen/Qwen3-8B", "--instance", "m7i.xlarge"], "m7i.xlarge"),
        (["plan", "--instance", "g6.8xlarge"], "--instance"),
        (["plan", "--prices", "no-such.yaml"], "no-such.yaml"),
        (["plan", "--plot", "picture.txt"], ".png"),
        (["upgrade-plan", "--from", "no-such-revision"], "no-such-revision"),
        (["upgrade-plan", "--from-manifest", "no-such.yaml"], "no-such.yaml"),
        (["upgrade-plan", "--kubeconfig", "no-such-kubeconfig"], "no-such-kubeconfig"),
        (["conformance"], "http://127.0.0.1:8000/v1"),
        (["conformance", "localhost:8000"], "localhost:8000"),
        (["conformance", "http://127.0.0.1:9/v1"], "does not answer"),
        (["conformance", "--group", "no-such-group", "--list"], "no-such-group"),
        (["conformance", "http://127.0.0.1:9/v1", "--timeout", "0"], "--timeout"),
        (["no-such-verb"], "no-such-verb"),
    ],
)
def test_a_mistake_of_the_call_is_code_2_and_one_clear_message(
    arguments: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process: what would be a traceback is an error of the test."""
    monkeypatch.setattr(sys, "argv", ["raypd", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capfd.readouterr()
    assert end.value.code == 2
    assert says in printed.err
    assert printed.out == ""


def test_a_mistake_ends_the_process_with_code_2_and_no_traceback() -> None:
    done = raypd("lint", "-f", "no-such.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("raypd: ")
    assert "Traceback" not in done.stderr


def test_render_prints_manifests_alone_or_the_serve_config_alone() -> None:
    whole = raypd("render", "-f", str(VALUES / "local-cpu.yaml"))
    alone = raypd("render", "-f", str(VALUES / "local-cpu.yaml"), "--serve-config")
    assert whole.returncode == alone.returncode == 0
    assert "kind: RayService" in whole.stdout
    assert alone.stdout.startswith("applications:")


def test_render_as_json() -> None:
    done = raypd("render", "--output", "json")
    parsed = json.loads(done.stdout)
    assert "RayService" in [manifest["kind"] for manifest in parsed["manifests"]]
    assert parsed["serve_config"]["applications"]


def test_a_refused_render_prints_no_manifests() -> None:
    done = raypd("render", "--set", "prefill.replicass=2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "RPD101" in done.stderr
