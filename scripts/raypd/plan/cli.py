"""`raypd plan`: options only; what it does is in verb.py, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.options import (
    Chart,
    Format,
    Output,
    Set,
    SetFile,
    SetJson,
    SetString,
    Values,
    value_arguments,
)

app = typer.Typer()


@app.command()
def plan(
    values: Values,
    set_: Set,
    set_string: SetString,
    set_file: SetFile,
    set_json: SetJson,
    model: Annotated[
        str | None,
        typer.Argument(help="A known model's name, or a config.json. Default: the values' model."),
    ] = None,
    chart: Chart = None,
    instance: Annotated[
        str | None,
        typer.Option("--instance", help="Instance type for a model without values; default: all."),
    ] = None,
    max_model_len: Annotated[
        int | None,
        typer.Option("--max-model-len", min=1, help="Context for a model without values."),
    ] = None,
    input_tokens: Annotated[
        int | None, typer.Option("--input-tokens", min=1, help="Tokens of a prompt.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output-tokens", min=1, help="Tokens of an answer.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Requests a second.")
    ] = None,
    ttft: Annotated[
        float | None, typer.Option("--ttft", min=1, help="Target: time to first token, ms.")
    ] = None,
    itl: Annotated[
        float | None, typer.Option("--itl", min=1, help="Target: time between tokens, ms.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", help="Price file; default: the dated one inside.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the formula of every number.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw memory and bandwidth into this file.")
    ] = None,
    output: Output = Format.human,
) -> None:
    """What fits, how fast, at what price: memory, wire, P:D ratio, cost, and the shape to choose."""
    from raypd.plan.verb import Question, run

    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    question = Question(
        model,
        instance,
        max_model_len,
        input_tokens,
        output_tokens,
        rate,
        ttft / 1e3 if ttft is not None else None,
        itl / 1e3 if itl is not None else None,
    )
    raise typer.Exit(run(chart, arguments, question, prices, explain, plot, output.value))
