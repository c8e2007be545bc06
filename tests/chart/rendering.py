"""Rendering the chart with values given as data, and reading what comes out."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from raypd import yaml_text
from raypd.toolchain import helm

Manifest = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ray-pd-llm"
VALUES_FILES = sorted((ROOT / "values").glob("*.yaml"))
# Every object that the chart can make at once.
EVERYTHING: Manifest = {
    "huggingface": {"token": "hf_0123456789abcdef"},
    "cache": {"prefetch": {"enabled": True}},
    "ingress": {"enabled": True, "hosts": ["llm.example.com"]},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
    "gcsFaultTolerance": {"enabled": True, "redisAddress": "redis.inference.svc:6379"},
    "monitoring": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
}

# Values to render whatever has to hold for all of them, by a name.
SITUATIONS: dict[str, Manifest] = {
    "defaults": {},
    **{file.stem: yaml_text.load(file.read_text()) for file in VALUES_FILES},
    "everything": EVERYTHING,
}


class Refused(Exception):
    """Helm's message for values that it or the chart refuses."""


def run_helm(program: Path, *arguments: str, stdin: str | None = None) -> str:
    """Helm's standard output; raises Refused with its error."""
    done = subprocess.run(
        [program, *arguments], input=stdin, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


class Render:
    """Renders the package with values given as data; the release is `llm` in `inference`.

    What was rendered once is kept; test_values_files.py shows that a second run gives the same.
    """

    def __init__(self, package: Path) -> None:
        self.package = package
        self.kept: dict[tuple[str, ...], str] = {}

    def text(self, values: Manifest | None = None, *options: str) -> str:
        key = (json.dumps(values or {}), *options)
        if key not in self.kept:
            self.kept[key] = self.afresh(values, *options)
        return self.kept[key]

    def afresh(
        self, values: Manifest | None = None, *options: str, program: Path | None = None
    ) -> str:
        release = next((o.removeprefix("name=") for o in options if o.startswith("name=")), "llm")
        options = tuple(o for o in options if not o.startswith("name="))
        return run_helm(
            program or helm(4),
            *("template", release, str(self.package), "-n", "inference", "-f", "-", *options),
            stdin=json.dumps(values or {}),
        )

    def all(self, values: Manifest | None = None, *options: str) -> list[Manifest]:
        return [m for m in yaml_text.load_all(self.text(values, *options)) if m]

    def kind(self, kind: str, values: Manifest | None = None, *options: str) -> list[Manifest]:
        return [m for m in self.all(values, *options) if m["kind"] == kind]

    def one(self, kind: str, values: Manifest | None = None, *options: str) -> Manifest:
        (found,) = self.kind(kind, values, *options)
        return found

    def rayservice(self, values: Manifest | None = None, *options: str) -> Manifest:
        return self.one("RayService", values, *options)["spec"]

    def serve_args(self, values: Manifest | None = None) -> Manifest:
        """Arguments of the one Serve application."""
        return self.serve_application(values)["args"]

    def serve_application(self, values: Manifest | None = None) -> Manifest:
        """The one Serve application."""
        config = yaml_text.load(self.rayservice(values)["serveConfigV2"])
        (application,) = config["applications"]
        return application

    def groups(self, values: Manifest | None = None) -> dict[str, Manifest]:
        """Head and worker groups by name."""
        cluster = self.rayservice(values)["rayClusterConfig"]
        return {"head": cluster["headGroupSpec"]} | {
            group["groupName"]: group for group in cluster["workerGroupSpecs"]
        }

    def pods(self, values: Manifest | None = None) -> dict[str, Manifest]:
        """Pod specs by group name."""
        return {name: g["template"]["spec"] for name, g in self.groups(values).items()}

    def env(self, values: Manifest | None = None) -> dict[str, dict[str, Any]]:
        """Environment of each group's Ray container: name to value, or to the `valueFrom` block."""
        found = {}
        for name, pod in self.pods(values).items():
            entries = pod["containers"][0]["env"]
            names = [entry["name"] for entry in entries]
            assert len(names) == len(set(names)), f"{name} has a variable twice: {names}"
            found[name] = {e["name"]: e.get("value", e.get("valueFrom")) for e in entries}
        return found

    def problems(self, values: Manifest | None = None, *options: str) -> dict[str, str]:
        """Path to code of each rule that the chart says is broken; empty when it renders."""
        try:
            self.text(values, *options)
        except Refused as refused:
            found = re.findall(r"\[(RPD\d+)\] (\S+): (.+)\. Instead: (.+)", str(refused))
            assert found, f"refused without a rule of the chart: {refused}"
            return {path: code for code, path, _, _ in found}
        return {}
