"""`raypd preflight`: options only; what it does is in verb.py, imported when it runs."""

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


@app.command()
def preflight(
    values: Values,
    set_: Set,
    set_string: SetString,
    set_file: SetFile,
    set_json: SetJson,
    chart: Chart = None,
    release: Release = "llm",
    namespace: Namespace = "inference",
    eksctl: Annotated[
        Path | None,
        typer.Option("--eksctl", help="The eksctl config that makes, or made, the cluster."),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option("--region", help="AWS region; default: the eksctl config's, else yours."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Profile of AWS; default: $AWS_PROFILE.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Print all checks, and make none of them.")
    ] = False,
    output: Output = Format.human,
) -> None:
    """What the account, registry, hub and cluster lack, before anything is created. Reads only."""
    from raypd.preflight.verb import list_checks, run

    if list_:
        raise typer.Exit(list_checks(output.value))
    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(
        run(
            chart,
            arguments,
            release,
            namespace,
            eksctl,
            region,
            profile,
            kubeconfig,
            context,
            output.value,
        )
    )
