"""`raypd bench ...`: options only; what they do is in verb.py, imported when a verb runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.live.cli import Context, Kubeconfig
from raypd.local.cli import Wait
from raypd.options import (
    Chart,
    Format,
    Namespace,
    Output,
    ServingRelease,
    Set,
    SetString,
    Values,
    repeatable,
)

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
        list[str],
        repeatable(
            "--memory", help="host or vram; default: what this machine has, host in a release."
        ),
    ],
    fabric: Annotated[
        list[str],
        repeatable(
            "--fabric",
            help="default, cuda-ipc, cma, tcp, libfabric; default: all that go over UCX; in a release,"
            " what its engines use, and tcp.",
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
    release: ServingRelease = "",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    output: Output = Format.human,
) -> None:
    """NIXL alone: GB/s between two processes of this machine against a plain copy of the path, or between a
    prefill pod and a decode pod of a release against a plain TCP connection."""
    from raypd.bench import verb
    from raypd.bench.report import Files
    from raypd.report import UsageError

    files = Files(json, html, png)
    options = verb.KvOptions(memory, fabric, descriptors, threads, case_seconds, time_limit)
    if not release:
        raise typer.Exit(verb.run_kv(python, options, files, output.value))
    if python:
        raise UsageError("--python: in a release, the engines' own Python is used.")
    raise typer.Exit(
        verb.run_kv_of_release(
            release, namespace, kubeconfig, context, options, files, output.value
        )
    )


@app.command()
def serve(
    values: Values,
    set_: Set,
    set_string: SetString,
    load: Annotated[
        list[str], repeatable("--load", help="PROMPT:ANSWER@REQUESTS at a time, as in 1024:128@16.")
    ],
    goodput: Annotated[
        list[str],
        repeatable("--goodput", help="Target in ms, as vLLM takes it: ttft:500, tpot:50."),
    ],
    endpoints: Annotated[
        list[str] | None,
        typer.Argument(
            help="NAME=URL of an endpoint, or the name of a local run; all are measured in turn."
            " Without any, the chart is served here, P/D and aggregated side by side."
        ),
    ] = None,
    chart: Chart = None,
    prompts: Annotated[
        str | None,
        typer.Option("--prompts", help="Tokens of new prompts, one at a time: 1024,4096,8192."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option("--mix", help="Prompts that arrive among streams, TOKENS@RATES: 4096@1,2,4."),
    ] = None,
    streams: Annotated[
        int, typer.Option("--streams", min=1, help="Running streams of the mix.")
    ] = 8,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Rounds that count.")] = 5,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="Of one mix.")] = 10,
    time_limit: TimeLimit = 1800,
    model: Annotated[
        str, typer.Option("--model", help="Its name; default: the first served.")
    ] = "",
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="Folder or hub name; default: the model's.")
    ] = "",
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", envvar="RAYPD_API_KEY", help="Key of the endpoints."),
    ] = None,
    wait: Wait = 600,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    output: Output = Format.human,
) -> None:
    """What clients see: TTFT, ITL, throughput, goodput, by vLLM's own load generator."""
    from raypd.bench.report import Files
    from raypd.bench.serve import Asked, run, run_local
    from raypd.render.helm import ValueArguments

    asked = Asked(
        prompts,
        mix,
        streams,
        load,
        goodput,
        repeats,
        seconds,
        time_limit,
        model,
        tokenizer,
        api_key,
    )
    files = Files(json, html, png)
    arguments = ValueArguments(values, set_, set_string)
    if endpoints:
        _without_values(bool(chart or values or set_ or set_string), "an endpoint")
        raise typer.Exit(run(endpoints, asked, files, output.value))
    raise typer.Exit(run_local(chart, arguments, asked, wait, files, output.value))


@app.command()
def start(
    values: Values,
    set_: Set,
    set_string: SetString,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of local runs that are up. Without any, and without --release, the chart is"
            " served here twice: with empty caches, then with what the first start left in them."
        ),
    ] = None,
    chart: Chart = None,
    wait: Wait = 600,
    release: ServingRelease = "",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    output: Output = Format.human,
) -> None:
    """How long engines took to start, and where each second went."""
    from raypd.bench import start as verb
    from raypd.bench.report import Files
    from raypd.render.helm import ValueArguments

    files = Files(json, html, png)
    given = bool(chart or values or set_ or set_string)
    if release:
        _without_values(given or bool(runs), "a release")
        code = verb.run_release(release, namespace, kubeconfig, context, files, output.value)
    elif runs:
        _without_values(given, "a run")
        code = verb.run(runs, files, output.value)
    else:
        arguments = ValueArguments(values, set_, set_string)
        code = verb.run_twice(chart, arguments, wait, files, output.value)
    raise typer.Exit(code)


def _without_values(given: bool, what: str) -> None:
    from raypd.report import UsageError

    if given:
        raise UsageError(f"{what} is measured as it is: leave out what says how to start one.")
