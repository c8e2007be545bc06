"""The real Helm without a cluster: its failures are sentences, and a Ctrl-C does not reach it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
import yaml

from raypd import toolchain
from raypd.live.release import Helm, is_locked
from raypd.render import ValueArguments
from raypd.report import UsageError

CHART = Path(__file__).parents[3] / "charts" / "ray-pd-llm"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Of a server that nobody runs."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("major", [3, 4])
def test_a_server_that_does_not_answer(kubeconfig: Path, major: int) -> None:
    helm = Helm(kubeconfig, "x", toolchain.helm(major))
    for call in (
        lambda: helm.status("llm", "inference"),
        lambda: helm.releases("inference"),
        lambda: helm.upgrade("llm", CHART, "inference", ValueArguments()),
        lambda: helm.uninstall("llm", "inference"),
    ):
        with pytest.raises(UsageError, match=r"Helm failed: .*127\.0\.0\.1:1"):
            call()


def fake(folder: Path, body: str) -> Path:
    """A program that stands for Helm 4; it finds what it was called with in sys.argv."""
    path = folder / "helm"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "if sys.argv[1] == 'version': print('v4.3.1'); sys.exit()\n" + body
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_an_upgrade_gives_the_values_as_they_are_and_keeps_none_of_the_last(tmp_path: Path) -> None:
    said = tmp_path / "said"
    body = f"open({str(said)!r}, 'w').write(chr(10).join(sys.argv[1:] + [str(os.getsid(0))]))\n"
    helm = Helm(
        Path("k"), None, fake(tmp_path, body + "print('Pulled: x'); print('{\"version\": 3}')")
    )
    arguments = ValueArguments([Path("a b.yaml")], ["c=d e"])
    assert helm.upgrade("llm", "chart", "space", arguments, ("--skip-crds",)) == 3
    *words, session = said.read_text().splitlines()
    assert words[:3] == ["upgrade", "llm", "chart"]
    assert words[-6:] == ["--values", "a b.yaml", "--set", "c=d e", "--kubeconfig", "k"]
    assert {"--install", "--reset-values", "--force-conflicts", "--skip-crds"} <= set(words)
    assert not {"--wait", "--atomic"} & set(words)
    assert session != str(os.getsid(0))


def test_helm_3_knows_no_server_side_apply(tmp_path: Path) -> None:
    body = "assert '--force-conflicts' not in sys.argv\nprint('{\"version\": 1}')"
    program = fake(tmp_path, body)
    program.write_text(program.read_text().replace("v4.3.1", "v3.21.1"))
    assert Helm(program=program).upgrade("llm", "chart", "space") == 1


def test_no_such_release_is_none_and_a_failure_is_told_without_helms_trimmings(
    tmp_path: Path,
) -> None:
    failing = "sys.stderr.write('WARNING: x\\nError: {}\\n'); sys.exit(1)"
    missing = fake(tmp_path, failing.format("release: not found"))
    assert Helm(program=missing).status("llm", "space") is None
    broken = fake(tmp_path, failing.format("no such thing"))
    with pytest.raises(UsageError, match=r"^Helm failed: no such thing$"):
        Helm(program=broken).status("llm", "space")


def test_status_and_list(tmp_path: Path) -> None:
    body = (
        'if sys.argv[1] == \'status\': print(\'{"info": {"status": "failed"}}\')\n'
        "elif '--all-namespaces' in sys.argv: sys.exit(1)\n"
        'else: print(\'[{"name": "a", "namespace": "b"}]\')\n'
    )
    helm = Helm(program=fake(tmp_path, body))
    assert helm.status("llm", "space") == "failed"
    assert helm.releases("space") == ["a (b)"]


def test_a_release_that_another_helm_holds() -> None:
    assert is_locked("pending-upgrade")
    assert not any(map(is_locked, ("deployed", "failed", None)))
