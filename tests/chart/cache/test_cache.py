"""The cache volume, the claim, and the Job that fills it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from chart.rendering import CHART

PATHS = (
    "HF_HOME",
    "VLLM_CACHE_ROOT",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
)
PVC = {"type": "persistentVolumeClaim"}


def volume(pod: dict, name: str = "cache") -> dict:
    (found,) = [v for v in pod["volumes"] if v["name"] == name]
    return found


def test_every_cache_lies_under_the_mount(render):
    values = {"cache": {"mountPath": "/var/models"}}
    for role in ("prefill", "decode"):
        env = render.env(values)[role]
        assert all(env[name].startswith("/var/models/") for name in PATHS)
        assert len({env[name] for name in PATHS}) == len(PATHS)
        mounts = render.pods(values)[role]["containers"][0]["volumeMounts"]
        assert any(m["name"] == "cache" and m["mountPath"] == "/var/models" for m in mounts)


def test_host_path_must_exist(render):
    """DirectoryOrCreate would put the cache on the root disk where the NVMe is not mounted."""
    assert volume(render.pods()["prefill"]) == {
        "name": "cache",
        "hostPath": {"path": "/mnt/k8s-disks/0", "type": "Directory"},
    }


def test_host_path_of_another_owner_is_handed_over(render):
    values = {"transport": {"fabric": "tcp"}, "cache": {"hostPath": {"setOwner": True}}}
    (owner,) = render.pods(values)["decode"]["initContainers"]
    assert owner["command"] == ["chown", "1000:1000", "/cache"]
    assert owner["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
    assert "initContainers" not in render.pods(values)["head"]
    assert (
        "initContainers" not in render.pods({"cache": {"hostPath": {"setOwner": True}}})["decode"]
    )


def test_claim_is_made_once_and_kept(render):
    claim = render.one("PersistentVolumeClaim", {"cache": PVC})
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for role in ("prefill", "decode"):
        used = volume(render.pods({"cache": PVC})[role])["persistentVolumeClaim"]["claimName"]
        assert used == claim["metadata"]["name"]
    existing = {"cache": PVC | {"persistentVolumeClaim": {"existingClaim": "models"}}}
    assert render.kind("PersistentVolumeClaim", existing) == []
    assert volume(render.pods(existing)["decode"])["persistentVolumeClaim"]["claimName"] == "models"


def test_empty_dir_with_and_without_limit(render):
    assert volume(render.pods({"cache": {"type": "emptyDir"}})["decode"])["emptyDir"] == {
        "sizeLimit": "100Gi"
    }
    unlimited = {"cache": {"type": "emptyDir", "emptyDir": {"sizeLimit": ""}}}
    assert volume(render.pods(unlimited)["decode"])["emptyDir"] == {}


def test_prefetch_fills_every_node_or_the_one_claim(render):
    on_nodes = render.kind(
        "Job", {"cache": {"prefetch": {"enabled": True}}, "prefill": {"replicas": 3}}
    )
    assert sorted(job["spec"]["completions"] for job in on_nodes) == [1, 3]
    for job in on_nodes:
        spec = job["spec"]["template"]["spec"]
        assert spec["nodeSelector"]["role"] == "gpu-worker"
        assert "nvidia.com/gpu" not in spec["containers"][0]["resources"]["limits"]
        assert spec["affinity"]["podAntiAffinity"]
    (job,) = render.kind("Job", {"cache": PVC | {"prefetch": {"enabled": True}}})
    assert job["spec"]["completions"] == 1 and "affinity" not in job["spec"]["template"]["spec"]


def test_prefetch_counts_nodes_where_engines_share_them(render):
    four = {"instanceType": "g6.12xlarge", "replicas": 5}
    values = {"cache": {"prefetch": {"enabled": True}}, "prefill": four}
    jobs = render.kind("Job", values)
    assert max(job["spec"]["completions"] for job in jobs) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"revision": "abc"}},
        {"image": {"tag": "other"}},
        {"prefill": {"replicas": 2}, "decode": {"replicas": 2}},
        {"cache": {"prefetch": {"resources": {"memory": "8Gi"}}}},
        {"placement": {"zone": "us-west-2a"}},
    ],
)
def test_another_job_has_another_name(render, change):
    """What a Job does cannot be changed, so Helm's upgrade would end there."""

    def jobs(values: dict) -> dict[str, dict]:
        prefetch = {"enabled": True, **values.get("cache", {}).get("prefetch", {})}
        found = render.kind("Job", {**values, "cache": {"prefetch": prefetch}})
        return {job["metadata"]["name"]: job["spec"] for job in found}

    before, after = jobs({}), jobs(change)
    assert jobs({}) == before
    assert not before.keys() & after.keys()


def test_prefetch_pods_are_not_the_engines(render):
    """Their labels must not match a disruption budget or an affinity of the engines."""
    values = {"cache": {"prefetch": {"enabled": True}}}
    components = {
        job["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for job in render.kind("Job", values)
    }
    assert components == {"prefetch-prefill", "prefetch-decode"}


def run_prefetch(tmp_path: Path, hub: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs files/prefetch.py with a stand-in for the hub, which no test may call."""
    package = tmp_path / "huggingface_hub"
    package.mkdir()
    (package / "errors.py").write_text(
        "class RepositoryNotFoundError(Exception): pass\n"
        "class GatedRepoError(RepositoryNotFoundError): pass\n"
        "class RevisionNotFoundError(Exception): pass\n"
    )
    (package / "__init__.py").write_text(
        "from huggingface_hub.errors import *\n" + textwrap.dedent(hub)
    )
    script = (CHART / "files" / "prefetch.py").read_text()
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_prefetch_script_says_what_it_did(tmp_path):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "weights").write_bytes(b"x" * 2_000_000_0)
    hub = f"def snapshot_download(repository, revision):\n    assert (repository, revision) == ('a/b', 'main')\n    return {str(tmp_path / 'snapshot')!r}\n"
    done = run_prefetch(tmp_path, hub, "a/b", "main")
    assert done.returncode == 0, done.stderr
    assert "a/b 0.02 GB" in done.stdout


def test_the_prefetch_script_explains_a_refusal_without_a_traceback(tmp_path):
    for error, remedy in (
        ("GatedRepoError", "licence"),
        ("RepositoryNotFoundError", "model.source"),
        ("RevisionNotFoundError", "model.revision"),
    ):
        folder = tmp_path / error
        folder.mkdir()
        done = run_prefetch(
            folder, f"def snapshot_download(*a, **k):\n    raise {error}('no')\n", "a/b"
        )
        assert done.returncode == 1
        assert remedy in done.stderr and "Traceback" not in done.stderr
