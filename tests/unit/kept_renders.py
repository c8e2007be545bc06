"""What Helm was asked before is answered from memory, for as long as one run of the tests lasts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from raypd import toolchain

Run = Callable[[list[str], Path | None], str]


class KeptRenders:
    """Stands in for `raypd.render.helm._run`: what Helm prints follows from the program, the
    arguments and what lies in the files and folders that they name, so each is asked once.

    Refusals are not kept, nor calls whose files cannot be told from the arguments (--set-file).
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kept: dict[tuple[str, ...], str] = {}

    def __call__(self, command: list[str], helm: Path | None) -> str:
        if "--set-file" in command:
            return self.run(command, helm)
        program = helm or toolchain.helm()
        state = program.stat()
        key = (str(program), str(state.st_mtime_ns), str(state.st_size), *map(content, command))
        if key not in self.kept:
            self.kept[key] = self.run(command, program)
        return self.kept[key]


def content(argument: str) -> str:
    """A hash of the file or folder that an argument names; any other argument itself."""
    path = Path(argument)
    if not argument or not path.exists():
        return argument
    found = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        body = file.read_bytes()
        # A file alone goes by its ending, which tells a packaged chart from values.
        name = file.suffix if file == path else str(file.relative_to(path))
        found.update(f"{name} {len(body)}\n".encode() + body)
    return f"sha256:{found.hexdigest()}"
