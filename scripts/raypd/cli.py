"""The command line. Only typer is imported here, so that `raypd --help` answers at once; what a
verb needs is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from raypd.bench.cli import app as bench_app
from raypd.conformance.cli import app as conformance_app
from raypd.importer.cli import app as import_app
from raypd.live.cli import app as live_app
from raypd.local.cli import app as local_app
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
from raypd.plan.cli import app as plan_app
from raypd.preflight.cli import app as preflight_app
from raypd.upgrade.cli import app as upgrade_app

app = typer.Typer(
    name="raypd",
    help="Checks, renders and runs the ray-pd-llm chart: one LLM with prefill and decode apart.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # typer's rich help loads markdown and syntax colours: four times slower
    pretty_exceptions_enable=False,
)
app.add_typer(live_app)  # without a name: its verbs are verbs of raypd
app.add_typer(import_app)
app.add_typer(plan_app)
app.add_typer(preflight_app)
app.add_typer(conformance_app)
app.add_typer(upgrade_app)
app.add_typer(bench_app, name="bench")
app.add_typer(local_app, name="local")


@app.command()
def render(
    values: Values,
    set_: Set,
    set_string: SetString,
    set_file: SetFile,
    set_json: SetJson,
    chart: Chart = None,
    release: Release = "llm",
    namespace: Namespace = "inference",
    serve_config: Annotated[
        bool, typer.Option("--serve-config", help="Only the Ray Serve config.")
    ] = False,
    output: Output = Format.human,
) -> None:
    """The chart rendered by Helm, as YAML."""
    from raypd.render.verb import run

    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(run(chart, arguments, release, namespace, serve_config, output.value))


@app.command()
def lint(
    values: Values,
    set_: Set,
    set_string: SetString,
    set_file: SetFile,
    set_json: SetJson,
    chart: Chart = None,
    release: Release = "llm",
    namespace: Namespace = "inference",
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", help="Check this rendered file instead of rendering values."),
    ] = None,
    eksctl: Annotated[
        Path | None, typer.Option("--eksctl", help="Also check this eksctl config against values.")
    ] = None,
    karpenter: Annotated[
        Path | None,
        typer.Option("--karpenter", help="Also check these NodePools and EC2NodeClasses."),
    ] = None,
    output: Output = Format.human,
) -> None:
    """All that can be known offline: what would fail once a GPU is paid for."""
    from raypd.lint.verb import run

    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(
        run(chart, arguments, release, namespace, manifest, eksctl, karpenter, output.value)
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"raypd {version('raypd')}")
        raise typer.Exit


@app.callback()
def raypd(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


def main() -> None:
    """Runs the command line; exit code 0 pass, 1 findings, 2 usage or environment."""
    try:
        app()
    except Exception as error:
        from raypd.report import UsageError

        if not isinstance(error, UsageError):
            raise
        print(f"raypd: {error}", file=sys.stderr)
        sys.exit(2)
