"""A release on some cluster, as its checks reach it: raypd's verbs, Helm, and the API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from raypd.live.cluster import Cluster
from raypd.live.served import Served, find
from raypd.toolchain import helm

Json = dict[str, Any]

SERVES_SECONDS = 2400  # to pull images, load weights and compile, the first time
GONE_SECONDS = 600
STEP_SECONDS = 300  # for what only asks


@dataclass(frozen=True)
class Deployed:
    """The release `name` in `namespace`; `stays` when it was there before and is not to be removed."""

    kubeconfig: Path
    name: str
    namespace: str
    stays: bool = False

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.kubeconfig)

    @cached_property
    def values(self) -> Json:
        """All values of the release, the chart's own among them."""
        return json.loads(self.helm("get", "values", self.name, "--all", "--output", "json"))

    def served(self) -> Served:
        """What it serves now, and with which pods."""
        return find(self.cluster, self.name, self.namespace)

    def objects(self, path: str) -> list[Json]:
        """The release's objects of a kind; `path` is the list's below the namespace, for example
        "ray.io/v1/rayservices", or "v1/pods". Hooks such as the pod of `helm test` are left out."""
        root = "apis" if path.count("/") > 1 else "api"
        version, plural = path.rsplit("/", 1)
        listed = f"/{root}/{version}/namespaces/{self.namespace}/{plural}"
        found = self.cluster.list(listed, f"app.kubernetes.io/instance={self.name}")
        return [o for o in found if "helm.sh/hook" not in (o["metadata"].get("annotations") or {})]

    def up(self, chart: Path, values: Sequence[Path], seconds: int = SERVES_SECONDS) -> Json:
        """Installs or upgrades the release and waits until it serves; fails with what went wrong
        first."""
        files = [part for file in values for part in ("--values", str(file))]
        options = ["--chart", str(chart), *files, "--timeout", str(seconds)]
        return self.raypd("up", *options, seconds=seconds + STEP_SECONDS)

    def down(self) -> Json:
        """Removes the release and waits until it is gone."""
        options = ["--yes", "--timeout", str(GONE_SECONDS)]
        return self.raypd("down", *options, seconds=GONE_SECONDS + STEP_SECONDS)

    def raypd(self, verb: str, *options: str, seconds: float = STEP_SECONDS) -> Json:
        """The verb's JSON; fails with it unless the exit code is 0. What the verb tells a person
        meanwhile goes where pytest's own output goes."""
        where = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace]
        command = [sys.executable, "-m", "raypd", *verb.split(), "--release", self.name, *where]
        done = subprocess.run(
            [*command, "--output", "json", *options],
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, f"raypd {verb} ends with {done.returncode}:\n{done.stdout}"
        return json.loads(done.stdout)

    def helm(self, *arguments: str) -> str:
        """What Helm prints; fails with its words."""
        where = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace]
        done = subprocess.run(
            [helm(), *arguments, *where], capture_output=True, text=True, timeout=STEP_SECONDS
        )
        assert done.returncode == 0, f"helm {' '.join(arguments)}:\n{done.stderr}{done.stdout}"
        return done.stdout
