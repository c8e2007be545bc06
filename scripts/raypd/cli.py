"""The command line. Only typer is imported here, so that `raypd --help` answers at once; what a
verb needs is imported when it runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypd.local.cli import app as local_app

if TYPE_CHECKING:
    from raypd.render.helm import ValueArguments

app = typer.Typer(
    name="raypd",
    help="Checks, renders and runs the ray-pd-llm chart: one LLM with prefill and decode apart.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # typer's rich help loads markdown and syntax colours: four times slower
    pretty_exceptions_enable=False,
)
app.add_typer(local_app, name="local")


class Format(StrEnum):
    """Form of what a verb prints."""

    human = "human"
    json = "json"


def _repeatable(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, default_factory=list, show_default=False)


Values = Annotated[list[Path], _repeatable("--values", "-f", help="A values file; later ones win.")]
Set = Annotated[list[str], _repeatable("--set", help="path=value, as Helm takes it.")]
SetString = Annotated[list[str], _repeatable("--set-string", help="path=value, kept a string.")]
SetFile = Annotated[list[str], _repeatable("--set-file", help="path=file, its content the value.")]
SetJson = Annotated[list[str], _repeatable("--set-json", help="path=JSON.")]
Chart = Annotated[
    Path | None, typer.Option("--chart", help="Chart folder or .tgz; default: this checkout's.")
]
Release = Annotated[str, typer.Option("--release", help="Name of the Helm release.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the release.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="For people, or JSON for programs.")]


def _arguments(
    values: list[Path],
    set_: list[str],
    set_string: list[str],
    set_file: list[str],
    set_json: list[str],
) -> ValueArguments:
    from raypd.render.helm import ValueArguments

    return ValueArguments(values, set_, set_string, set_file, set_json)


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

    arguments = _arguments(values, set_, set_string, set_file, set_json)
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
    output: Output = Format.human,
) -> None:
    """All that can be known offline: what would fail once a GPU is paid for."""
    from raypd.lint.verb import run

    arguments = _arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(run(chart, arguments, release, namespace, manifest, eksctl, output.value))


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
