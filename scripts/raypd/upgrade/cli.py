"""`raypd upgrade-plan`: options only; what it does is in verb.py, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.live.cli import Context, Kubeconfig
from raypd.options import (
    Chart,
    Format,
    Namespace,
    Output,
    Release,
    Set,
    SetFile,
    SetJson,
    SetString,
    Values,
    value_arguments,
)

app = typer.Typer()


@app.command("upgrade-plan")
def upgrade_plan(
    values: Values,
    set_: Set,
    set_string: SetString,
    set_file: SetFile,
    set_json: SetJson,
    chart: Chart = None,
    release: Release = "llm",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    revision: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Compare with chart and values files (no --set) of this Git revision, not the cluster.",
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--from-manifest", help="Compare with this rendered file, not the cluster."),
    ] = None,
    output: Output = Format.human,
) -> None:
    """What an upgrade to these values would do to pods, engines and requests, before it is done."""
    from raypd.upgrade.verb import run

    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(
        run(
            chart,
            arguments,
            release,
            namespace,
            kubeconfig,
            context,
            revision,
            manifest,
            output.value,
        )
    )
