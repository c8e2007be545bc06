"""`raypd local ...`: options only; what they do is in verb.py, imported when a verb runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.options import Chart, Format, Output, Set, SetString, repeatable

app = typer.Typer(
    name="local",
    help="Runs the chart's render on this machine, without Kubernetes; a GPU is not needed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


Values = Annotated[
    list[Path], repeatable("--values", "-f", help="Values on top of values/local-cpu.yaml.")
]
Name = Annotated[str, typer.Option("--name", help="Name of the run; several can be up.")]
Wait = Annotated[int, typer.Option("--wait", min=10, help="Seconds to wait until it serves.")]


@app.command()
def up(
    values: Values,
    set_: Set,
    set_string: SetString,
    chart: Chart = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", help="Serve this rendered file instead of rendering values."),
    ] = None,
    name: Name = "default",
    wait: Wait = 600,
    output: Output = Format.human,
) -> None:
    """Start, and leave it running until `raypd local down`."""
    from raypd.local.verb import run_up

    raise typer.Exit(run_up(chart, values, set_, set_string, manifest, name, wait, output.value))


@app.command()
def status(name: Name = "default", output: Output = Format.human) -> None:
    """How it stands: the application, its replicas, and the group each of them is on."""
    from raypd.local.verb import run_status

    raise typer.Exit(run_status(name, output.value))


@app.command()
def chat(
    prompt: Annotated[str, typer.Argument(help="What to say to the model.")] = "Hello there.",
    stream: Annotated[bool, typer.Option("--stream", help="Ask for a stream.")] = False,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1)] = 24,
    name: Name = "default",
    output: Output = Format.human,
) -> None:
    """One chat request, and which engine did what for it."""
    from raypd.local.verb import run_chat

    raise typer.Exit(run_chat(prompt, stream, max_tokens, name, output.value))


@app.command()
def down(name: Name = "default", output: Output = Format.human) -> None:
    """End every process of the run and remove its files."""
    from raypd.local.verb import run_down

    raise typer.Exit(run_down(name, output.value))


@app.command()
def quickstart(
    values: Values,
    set_: Set,
    set_string: SetString,
    chart: Chart = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running afterwards.")] = False,
    name: Name = "quickstart",
    wait: Wait = 600,
    output: Output = Format.human,
) -> None:
    """Up, a chat request, a streamed one, the proof that KV moved, and down."""
    from raypd.local.verb import run_quickstart

    raise typer.Exit(
        run_quickstart(chart, values, set_, set_string, keep, name, wait, output.value)
    )
