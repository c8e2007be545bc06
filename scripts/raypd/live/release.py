"""Helm on a live cluster, through pyhelm3: what releases there are, one put up, one taken down."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pyhelm3 import Command
from pyhelm3.errors import Error as HelmError
from pyhelm3.errors import ReleaseNotFoundError

from raypd import toolchain
from raypd.render.helm import ValueArguments
from raypd.report import UsageError
from raypd.toolchain.programs import version_of

Json = dict[str, Any]
_T = TypeVar("_T")

# Starts a program in a session of its own: Ctrl-C goes to all that share the terminal's process
# group, and a Helm that is cut short leaves the release locked.
_DETACH = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"
_FIRST_WITH_SERVER_SIDE = (4, 0, 0)
_MOVING = ("pending-install", "pending-upgrade", "pending-rollback")


class Helm:
    """Helm for the cluster of a kubeconfig's context; None means the same as for a Cluster.

    Every method raises UsageError with Helm's own words when Helm fails.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        context: str | None = None,
        program: Path | None = None,
        shield: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`program` None takes the Helm of `raypd.toolchain`. `shield` holds signals back while Helm
        writes to the cluster."""
        self._program = program or toolchain.helm()
        self._shield = shield
        self._options: dict[str, Any] = {"kubeconfig": kubeconfig, "kubecontext": context}
        self._command = Command(executable=str(self._program), **self._options)

    def status(self, release: str, namespace: str) -> str | None:
        """State of the newest revision ("deployed", "failed", "pending-install" ...); None when
        there is no such release."""
        try:
            found = self._run(self._command.status(release, namespace=namespace))
        except _NoRelease:
            return None
        return str(found["info"]["status"])

    def releases(self, namespace: str) -> list[str]:
        """ "name (namespace)" of all releases, or of the one namespace where no more may be read."""
        # Without a choice of states Helm 3 lists the deployed ones only, Helm 4 all of them.
        everything = ["list", "--deployed", "--failed", "--pending", "--uninstalling"]
        everything += ["--output", "json"]
        try:
            found = self._run(self._command.run([*everything, "--all-namespaces"]))
        except UsageError:
            found = self._run(self._command.run([*everything, "--namespace", namespace]))
        return [f"{entry['name']} ({entry['namespace']})" for entry in json.loads(found)]

    def manifests(self, release: str, namespace: str) -> list[Json]:
        """The objects of the newest revision, hooks left out."""
        found = self._run(self._command.get_resources(release, namespace=namespace))
        return [manifest for manifest in found if isinstance(manifest, dict)]

    def upgrade(
        self,
        release: str,
        chart: Path | str,
        namespace: str,
        arguments: ValueArguments | None = None,
        extra: tuple[str, ...] = (),
    ) -> int:
        """`helm upgrade --install`, which waits for nothing; returns the number of the revision.

        The values are exactly those of `arguments`: what the last revision had is not kept. A
        Ctrl-C meanwhile does not reach Helm. `extra` are further options of Helm.
        """
        command = ["upgrade", release, str(chart), "--install", "--namespace", namespace]
        command += ["--create-namespace", "--reset-values", "--output", "json", *extra]
        if version_of(str(self._program), "version", "--short") >= _FIRST_WITH_SERVER_SIDE:
            # KubeRay writes the objects back in its own form ("1" for a CPU of "1000m") and owns
            # those fields then; the next upgrade would stop at the conflict.
            command += ["--server-side=true", "--force-conflicts"]
        command += (arguments or ValueArguments()).command_line()
        output = self._write(command)
        # Helm 4 writes what it says of a chart from a registry before its JSON.
        return int(json.loads(output[output.index(b"{") :])["version"])

    def uninstall(self, release: str, namespace: str) -> None:
        """`helm uninstall`, which waits for nothing. No such release is no failure."""
        command = ["uninstall", release, "--namespace", namespace, "--ignore-not-found"]
        self._write(command)

    def pull(self, chart: str, repository: str | None, version: str | None) -> Path:
        """Fetches a chart by its reference; returns a new folder, the caller's, with the unpacked
        chart in it."""
        return self._run(self._command.pull(chart, repo=repository, version=version))

    def _write(self, command: list[str]) -> bytes:
        """Runs Helm out of reach of the terminal's signals."""
        detached = Command(executable=sys.executable, **self._options)
        with self._shield():
            return self._run(detached.run(["-c", _DETACH, str(self._program), *command]))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return asyncio.run(work)
        except ReleaseNotFoundError as error:
            raise _NoRelease(_words(error)) from error
        except HelmError as error:
            raise UsageError(f"Helm failed: {_words(error)}") from error


class _NoRelease(UsageError):
    """Helm knows no such release."""


def is_locked(status: str | None) -> bool:
    """Another Helm is at work on the release, or was killed at it."""
    return status in _MOVING


def _words(error: HelmError) -> str:
    """Helm's message without its own prefixes, warnings and advice."""
    lines = [
        line
        for line in error.stderr.decode("utf-8", "replace").splitlines()
        if line.strip() and not re.match(r"level=|WARNING:|Use --debug|[IWE]\d{4} ", line)
    ]
    return "\n".join(lines).strip().removeprefix("Error: ").strip()
