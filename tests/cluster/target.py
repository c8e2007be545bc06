"""The cluster under test, and the values that fit the chart's reference files to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

from cluster.devcluster import images, lifecycle, nodes
from cluster.devcluster.layout import ROOT
from cluster.devcluster.state import State
from raypd import yaml_text
from raypd.local.source import tiny_model_folder
from raypd.toolchain import helm

Values = dict[str, Any]
DRAIN_SECONDS = 5


@dataclass(frozen=True)
class Target:
    """`values` are laid over each values file that is installed; `made` is the devcluster, if it is
    one."""

    kubeconfig: Path
    values: Path | None
    made: State | None = None

    @property
    def simulated(self) -> bool:
        """Whether the nodes are the devcluster's, whose services can be reached from here and whose
        GPUs only exist in the scheduler's books."""
        return self.made is not None

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(_client(self.kubeconfig))

    @property
    def custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(_client(self.kubeconfig))

    def helm(self, *arguments: str, seconds: float = 60) -> str:
        """Runs Helm against the cluster and returns what it printed; fails with Helm's own words."""
        command = [helm(), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, f"helm {' '.join(arguments)}:\n{done.stderr}{done.stdout}"
        return done.stdout


@cache
def _client(kubeconfig: Path) -> client.ApiClient:
    return config.new_client_from_config(str(kubeconfig))


def cpu_values() -> Values:
    """What the reference files need to run here: the image made here with the Python environment
    mounted, engines on the CPU, the tiny model, and KV over TCP, as there is no EFA to load."""
    image = images.runtime()
    local = yaml_text.load((ROOT / "values" / "local-cpu.yaml").read_text())
    role = images.runtime_pod()
    # A pod that ends stays for as long, by default 30 s, because its replicas have nowhere to go.
    role["env"]["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = DRAIN_SECONDS
    # Ray starts an idle worker for each CPU that a pod asks for, and this machine has few. An engine
    # takes two, the ingress one. The memory lets two of them onto a node, as a second replica has to.
    engine = {**role, "resources": {"cpu": "3", "memory": "48Gi"}}
    # Bytes and seconds of the reads, for `raypd verify`.
    exports = {
        "NIXL_TELEMETRY_ENABLE": "y",
        "NIXL_TELEMETRY_EXPORTER": "prometheus",
        "NIXL_TELEMETRY_PROMETHEUS_LOCAL": "y",
    }
    return {
        **{key: local[key] for key in ("model", "huggingface", "runtime", "transport")},
        "image": {"repository": image.repository, "tag": image.tag},
        "cache": {"hostPath": {"setOwner": True}},  # without EFA, engines do not run as root
        "head": role,
        "prefill": engine,
        "decode": {**engine, "env": role["env"] | exports},
        "engine": engine,
    }


def fit(cluster: State) -> Path:
    """Lays the tiny model on the nodes, and returns a values file that fits reference files to them."""
    _put_model(cluster)
    file = cluster.folder / "cpu.yaml"
    file.write_text(yaml.safe_dump(cpu_values(), sort_keys=False))
    return file


def _put_model(cluster: State) -> None:
    """Onto the NVMe of each node that has some, as a prefetch would."""
    source = Path(
        yaml_text.load((ROOT / "values" / "local-cpu.yaml").read_text())["model"]["source"]
    )
    defaults = yaml_text.load((ROOT / "charts" / "ray-pd-llm" / "values.yaml").read_text())
    cache = defaults["cache"]
    inside = source.relative_to(cache["mountPath"])
    for machine in lifecycle.machines(cluster).values():
        disk = nodes.nvme(machine)
        if disk.is_dir():
            wanted = disk / cache["hostPath"]["subPath"] / inside
            if not wanted.exists():
                shutil.copytree(tiny_model_folder(), wanted)
                for path in (wanted, *wanted.iterdir()):
                    os.chown(path, images.USER, images.USER)
