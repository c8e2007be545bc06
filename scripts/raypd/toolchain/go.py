"""Go: the toolchain itself, and building programs of public modules with it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from raypd.toolchain.cache import once
from raypd.toolchain.process import progress, run
from raypd.toolchain.wheels import unpacked

# The newest `go` line among the pinned tools' go.mod files is Helm's: 1.26.0.
MINIMUM_GO = (1, 26)


@cache
def go() -> Path:
    """Go from PATH if new enough for every pinned tool, else the one that comes as a wheel."""
    if found := shutil.which("go"):
        answer = subprocess.run([found, "version"], capture_output=True, text=True)
        version = re.search(r"go(\d+)\.(\d+)", answer.stdout)
        if version and (int(version[1]), int(version[2])) >= MINIMUM_GO:
            return Path(found)
    return next(unpacked("go").glob("**/bin/go"))


def module(path: str, version: str) -> Path:
    """Folder of `path`@`version` in Go's module cache (checked against Go's checksum database)."""
    with progress(f"Fetching {path} {version}"), tempfile.TemporaryDirectory() as empty:
        answer = run([go(), "mod", "download", "-json", f"{path}@{version}"], cwd=Path(empty))
    return Path(json.loads(answer)["Dir"])


def build(
    path: str,
    package: str,
    version: str,
    *,
    stamp: Mapping[str, str] | None = None,
    replaces: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
) -> Path:
    """A program of the Go module `path`@`version`, built once and kept as NAME-VERSION in the cache.

    `package` is the main package's folder in the module ("." for its root). `stamp` are linker
    settings (variable -> text). `replaces` are further replace directives (module -> "module
    version"); those of the module's own go.mod are always taken over, as `go install` refuses to
    do. With `files` (name -> Go source of a package main) the program is these files, written
    against the module; `package` then only names it. `go install` is not used, because it also
    looks up deprecation notes, which not every module proxy serves.
    """
    name = path.rsplit("/", 1)[-1] if package == "." else package.rsplit("/", 1)[-1]

    def make(program: Path) -> None:
        settings = " ".join(f"-X {key}={text}" for key, text in (stamp or {}).items())
        with tempfile.TemporaryDirectory(prefix="raypd-go-") as folder:
            own = replaced_in(module(path, version))
            lines = [f"replace {old} => {new}" for old, new in {**own, **(replaces or {})}.items()]
            head = ["module raypd.build/tool", f"go {'.'.join(map(str, MINIMUM_GO))}"]
            Path(folder, "go.mod").write_text(
                "\n".join([*head, f"require {path} {version}", *lines, ""])
            )
            for file_name, source in (files or {}).items():
                Path(folder, file_name).write_text(source)
            wanted = "." if files else path if package == "." else f"{path}/{package}"
            command: list[str | Path] = [go(), "build", "-mod=mod", "-trimpath", "-buildvcs=false"]
            command += ["-ldflags", f"-s -w {settings}", "-tags", ",".join(tags), "-o", program]
            # Static whether or not there is a C compiler: programs are put into images of their own.
            env = {"GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
            run([*command, wanted], cwd=Path(folder), env=env)

    key = f"bin/{name}-{version}"
    return once(key, f"Building {name} {version} with Go (minutes, once)", make)


def replaced_in(folder: Path) -> dict[str, str]:
    """The replace directives of a module that point to other modules, as "old" -> "new version"."""
    answer = json.loads(run([go(), "mod", "edit", "-json", folder / "go.mod"]))
    found = {}
    for entry in answer.get("Replace") or []:
        old, new = entry["Old"], entry["New"]
        if "Version" in new:
            found[f"{old['Path']} {old.get('Version', '')}".strip()] = (
                f"{new['Path']} {new['Version']}"
            )
    return found
