"""`raypd conformance`: options only; what it does is in verb.py, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raypd.live.cli import Context, Kubeconfig
from raypd.options import Format, Namespace, Output, ServingRelease, repeatable

app = typer.Typer()


@app.command()
def conformance(
    group: Annotated[list[str], repeatable("--group", help="Only this group; may be repeated.")],
    url: Annotated[
        str | None, typer.Argument(help="The server's URL with the version: http://host:8000/v1")
    ] = None,
    release: ServingRelease = "",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key", envvar="RAYPD_API_KEY", help="Key of the server, and of the reference."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model to ask; default: the first that it lists.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", help="URL of the aggregated engine: greedy answers have to be the same."
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print all checks, and make none.")] = False,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, help="Seconds that one request may take.")
    ] = 60,
    time_limit: Annotated[
        int, typer.Option("--time-limit", min=1, help="Seconds that all checks may take.")
    ] = 900,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Also write a JUnit XML file.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write an HTML page.")] = None,
    output: Output = Format.human,
) -> None:
    """An endpoint against OpenAI's API, as the official client and raw HTTP see it."""
    from raypd.conformance.verb import Question, list_checks, run, run_release

    if list_:
        raise typer.Exit(list_checks(group, output.value))
    question = Question(url, api_key, model, reference, group, timeout, time_limit)
    if release:
        code = run_release(
            release, namespace, kubeconfig, context, question, junit, html, output.value
        )
    else:
        code = run(question, junit, html, output.value)
    raise typer.Exit(code)
