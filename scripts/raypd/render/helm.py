"""Runs `helm template`, and asks Helm what the merged values are."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.render.chart import as_folder
from raypd.report import UsageError

# pyhelm3 logs each failed command line as a warning, and a command line can hold a `--set` secret.
logging.getLogger("pyhelm3").setLevel(logging.ERROR)


@dataclass(frozen=True)
class ValueArguments:
    """Values as Helm takes them: files first, then the --set family, later ones win."""

    values: list[Path] = field(default_factory=list)
    set_: list[str] = field(default_factory=list)
    set_string: list[str] = field(default_factory=list)
    set_file: list[str] = field(default_factory=list)
    set_json: list[str] = field(default_factory=list)

    def command_line(self) -> list[str]:
        """The arguments for Helm, in the order in which Helm itself merges them."""
        flags = {
            "--values": [str(path) for path in self.values],
            "--set-json": self.set_json,
            "--set": self.set_,
            "--set-string": self.set_string,
            "--set-file": self.set_file,
        }
        return [part for flag, given in flags.items() for value in given for part in (flag, value)]


class HelmFailed(Exception):
    """`helm template` ended with an error; `message` is Helm's own text."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def template(
    chart: Path,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    helm: Path | None = None,
) -> str:
    """The manifests as `helm template` prints them.

    Raises HelmFailed for what the chart refuses, UsageError for files that are missing or unreadable.
    """
    for path in arguments.values:
        if not path.is_file():
            raise UsageError(f"--values {path}: there is no such file. Give a path to a YAML file.")
    if not chart.exists():
        raise UsageError(f"--chart {chart}: there is no such chart. Give a folder or a .tgz.")
    command = ["template", release, str(chart), "--namespace", namespace]
    try:
        return _run([*command, *arguments.command_line()], helm)
    except HelmFailed as failure:
        if any(mark in failure.message for mark in _REFUSED_BY_THE_CHART):
            raise
        raise UsageError(f"Helm cannot use what it was given: {failure.message}") from failure


# What Helm (3.14 to 4.3) says when it got as far as the chart's schema and templates. All else is
# about the call: files it cannot read, a chart that is none, a release name.
_REFUSED_BY_THE_CHART = (
    "values don't meet the specifications",
    "execution error at",
    "/templates/",
    "parse error",
    "nil pointer",
)


def merged_values(
    chart: Path, arguments: ValueArguments, helm: Path | None = None
) -> dict[str, Any]:
    """The chart's defaults and the user's values as Helm merges them (`null` removes, and so on).

    Helm prints them itself: it renders a chart of the same name and defaults, whose one template
    shows `.Values`. It has no schema, so the values come back even when the real one refuses them.
    """
    with as_folder(chart) as source, tempfile.TemporaryDirectory(prefix="raypd-values-") as scratch:
        metadata = yaml_text.load((source / "Chart.yaml").read_text(encoding="utf-8"))
        probe = Path(scratch) / str(metadata["name"])
        (probe / "templates").mkdir(parents=True)
        kept = {key: metadata[key] for key in ("apiVersion", "name", "version")}
        (probe / "Chart.yaml").write_text(yaml.safe_dump(kept), encoding="utf-8")
        shutil.copy(source / "values.yaml", probe / "values.yaml")
        # base64, because Helm takes what it renders apart as YAML, and values may hold anything.
        (probe / "templates" / "values.yaml").write_text(
            "kind: Values\nvalues: {{ .Values | toJson | b64enc }}\n", encoding="utf-8"
        )
        printed = template(probe, arguments, "values", "default", helm)
    return json.loads(base64.b64decode(yaml_text.load(printed)["values"]))


def without_schema(
    chart: Path, arguments: ValueArguments, release: str, namespace: str, helm: Path | None = None
) -> str:
    """Renders the chart with its schema taken away, to hear its rules on values the schema refuses.

    (Helm has a flag for it only since 3.16.)
    """
    with as_folder(chart) as source, tempfile.TemporaryDirectory(prefix="raypd-lax-") as scratch:
        copy = Path(scratch) / source.resolve().name
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("values.schema.json"))
        return template(copy, arguments, release, namespace, helm)


def _run(command: list[str], helm: Path | None) -> str:
    # Imported here: what was rendered before can be used where pyhelm3 is not installed.
    from pyhelm3 import Command
    from pyhelm3.errors import Error as HelmError

    if helm is None:
        from raypd import toolchain

        helm = toolchain.helm()
    try:
        return asyncio.run(Command(executable=str(helm)).run(command)).decode("utf-8")
    except HelmError as error:
        raise HelmFailed(_plain(error.stderr.decode("utf-8", "replace"))) from error


def _plain(stderr: str) -> str:
    """Helm's message without its own prefixes and advice."""
    lines = [
        line
        for line in stderr.splitlines()
        if not line.startswith(("level=", "WARNING:", "Use --debug flag"))
    ]
    return "\n".join(lines).strip().removeprefix("Error: ").strip()
