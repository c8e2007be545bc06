"""`raypd bench ...`: options only; what they do is in verb.py, imported when a verb runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.options import Format, Output, repeatable

app = typer.Typer(
    name="bench",
    help="Measures, on whatever is there: this machine's CPU, its GPU, or a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Json = Annotated[Path | None, typer.Option("--json", help="Also write the results as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write one HTML page.")]
Png = Annotated[Path | None, typer.Option("--png", help="Also write pictures to this folder.")]
TimeLimit = Annotated[
    int, typer.Option("--time-limit", min=1, help="Seconds that the whole measurement may take.")
]


@app.command()
def kv(
    memory: Annotated[
        list[str], repeatable("--memory", help="host or vram; default: what this machine has.")
    ],
    fabric: Annotated[
        list[str],
        repeatable(
            "--fabric",
            help="default, cuda-ipc, cma, tcp, libfabric; default: all that go over UCX.",
        ),
    ],
    descriptors: Annotated[
        list[str],
        repeatable("--descriptors", help="As 4608x128KiB; default: six layouts of one prompt."),
    ],
    python: Annotated[
        Path | None,
        typer.Option("--python", help="Python with NIXL and torch; default: the CPU runtime's."),
    ] = None,
    threads: Annotated[
        int,
        typer.Option("--threads", min=1, help="Threads of NIXL, transport.threads of the chart."),
    ] = 4,
    case_seconds: Annotated[
        int, typer.Option("--case-seconds", min=1, help="Seconds that one layout may take.")
    ] = 20,
    time_limit: TimeLimit = 900,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    output: Output = Format.human,
) -> None:
    """NIXL alone, between two processes of this machine: GB/s against a plain copy of the path."""
    from raypd.bench.report import Files
    from raypd.bench.verb import run_kv

    files = Files(json, html, png)
    raise typer.Exit(
        run_kv(
            python,
            memory,
            fabric,
            descriptors,
            threads,
            case_seconds,
            time_limit,
            files,
            output.value,
        )
    )
