"""A chart and its values files as they were at a revision of Git."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raypd.render import ValueArguments
from raypd.report import UsageError


@dataclass(frozen=True)
class Then:
    """What there was: the chart, the values files, and in `as_now` what is in no checkout, so that it is
    taken as it is now."""

    chart: Path
    arguments: ValueArguments
    as_now: list[str] = field(default_factory=list)


@contextmanager
def at(revision: str, chart: Path, arguments: ValueArguments) -> Iterator[Then]:
    """The chart and the values files at `revision`, for as long as the context lasts. Values of the
    command line are not of that time, and left out.

    Raises UsageError where Git is not there, does not know the revision, or had no such file.
    """
    if shutil.which("git") is None:
        raise UsageError(
            "--from reads a revision with git, and there is no git on the PATH. Install it, or give an "
            "older render with --from-manifest."
        )
    with tempfile.TemporaryDirectory(prefix="raypd-revision-") as scratch:
        folder = Path(scratch)
        as_now: list[str] = []
        old_chart = chart
        if root := _root(chart.parent if chart.is_file() else chart):
            old_chart = _chart(root, revision, chart, folder)
        if old_chart is chart:
            as_now.append(f"the chart {chart}")
        files = []
        for number, path in enumerate(arguments.values):
            root = _root(path.resolve().parent)
            if root is None:
                as_now.append(f"the values file {path}")
                files.append(path)
                continue
            file = folder / f"{number}-{path.name}"
            file.write_bytes(_file(root, revision, path, "--values"))
            files.append(file)
        if len(as_now) == 1 + len(arguments.values):
            raise UsageError(
                f"--from {revision}: neither the chart {chart} nor a values file is in a Git checkout, "
                "so there is nothing older. Give an older render with --from-manifest."
            )
        yield Then(old_chart, ValueArguments(values=files), as_now)


def _chart(root: Path, revision: str, chart: Path, folder: Path) -> Path:
    """The chart at the revision; the chart itself where it is a package that Git does not know."""
    if chart.is_file():
        if not _git(root, "ls-files", "--", str(chart.resolve())).strip():
            _commit(root, revision)  # of the values, then
            return chart
        file = folder / chart.name
        file.write_bytes(_file(root, revision, chart, "--chart"))
        return file
    commit, inside = _commit(root, revision), _inside(root, chart)
    tree = f"{commit}:{inside}" if inside != "." else f"{commit}:"
    if not _has(root, tree):
        raise UsageError(
            f"--from {revision}: there was no {inside} in {root} then. Name an older render with "
            "--from-manifest instead."
        )
    target = folder / "chart" / chart.resolve().name
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", tree))) as archive:
        archive.extractall(target, filter="data")
    return target


def _file(root: Path, revision: str, path: Path, option: str) -> bytes:
    commit, inside = _commit(root, revision), _inside(root, path)
    if not _has(root, f"{commit}:{inside}"):
        raise UsageError(
            f"--from {revision}: {option} {path} did not exist in {root} then. Leave it out and compare "
            "renders instead: `raypd render` there, and --from-manifest."
        )
    return _git(root, "show", f"{commit}:{inside}")


def _commit(root: Path, revision: str) -> str:
    words = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    done = _run(root, *words) if revision and not revision.startswith("-") else None
    if done is None or done.returncode:
        raise UsageError(
            f"--from {revision}: {root} has no such revision. Give a commit, branch or tag of it; a "
            "shallow clone has few (`git fetch --unshallow`)."
        )
    return done.stdout.decode().strip()


def _root(folder: Path) -> Path | None:
    """The checkout that a folder is in."""
    if not folder.is_dir():
        return None  # said where the path itself is read
    done = _run(folder, "rev-parse", "--show-toplevel")
    if done.returncode == 0:
        return Path(done.stdout.decode().strip())
    words = done.stderr.decode(errors="replace").strip()
    if "not a git repository" in words:
        return None
    raise UsageError(f"--from: git cannot read {folder}: {words}")


def _inside(root: Path, path: Path) -> str:
    return path.resolve().relative_to(root.resolve()).as_posix()


def _has(root: Path, thing: str) -> bool:
    return _run(root, "cat-file", "-e", thing).returncode == 0


def _git(root: Path, *words: str) -> bytes:
    done = _run(root, *words)
    if done.returncode:
        raise UsageError(
            f"`git {' '.join(words)}` failed in {root}: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    # In English, because a message is looked at; and of the folder, also where a hook of another
    # repository has called.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *words],
        cwd=folder,
        capture_output=True,
        check=False,
        env={**own, "LC_ALL": "C"},
    )
