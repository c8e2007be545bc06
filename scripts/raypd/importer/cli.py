"""`raypd import`: options only; what it does is in verb.py, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.options import Chart, Format

app = typer.Typer()


@app.command("import")
def import_(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Manifest with a RayService, or - for standard input."),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", "-o", help="File to write; default: standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    chart: Chart = None,
    output: Annotated[
        Format, typer.Option("--output", help="For people, or JSON for programs.")
    ] = Format.human,
) -> None:
    """The values file that reproduces a hand-written RayService, and what it cannot carry over."""
    from raypd.importer.verb import run

    raise typer.Exit(run(file, to, force, chart, output.value))
