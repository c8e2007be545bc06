"""The verbs that work on a live release: options only; what a verb does is in the module of its name,
imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Default: $KUBECONFIG, else ~/.kube/config.")
]
Context = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig; default: its current.")
]


@app.command()
def up(
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
    with_operator: Annotated[
        bool,
        typer.Option("--with-operator", help="Install KubeRay's operator where there is none."),
    ] = False,
    operator_chart: Annotated[
        str | None,
        typer.Option(
            "--operator-chart",
            help="Folder, .tgz or reference of its chart; default: KubeRay's published one.",
        ),
    ] = None,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, help="Seconds to wait until it serves.")
    ] = 1800,
    output: Output = Format.human,
) -> None:
    """Check the values and the cluster, install or upgrade, and watch until it serves."""
    from raypd.live.up import run

    arguments = value_arguments(values, set_, set_string, set_file, set_json)
    raise typer.Exit(
        run(
            chart,
            arguments,
            release,
            namespace,
            kubeconfig,
            context,
            with_operator,
            operator_chart,
            timeout,
            output.value,
        )
    )


@app.command()
def status(
    release: Release = "llm",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = Format.human,
) -> None:
    """Where a release stands: its pods, Ray Serve's application, and what is still loading."""
    from raypd.live.status import run

    raise typer.Exit(run(release, namespace, kubeconfig, context, output.value))


@app.command()
def doctor(
    release: Release = "llm",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = Format.human,
) -> None:
    """Why a release does not serve: what failed first, where, and what to do."""
    from raypd.live.doctor import run

    raise typer.Exit(run(release, namespace, kubeconfig, context, output.value))


@app.command()
def verify(
    release: Release = "llm",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, help="Seconds that one request may take.")
    ] = 120,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key", envvar="RAYPD_API_KEY", help="Key of the endpoint, where it asks for one."
        ),
    ] = None,
    output: Output = Format.human,
) -> None:
    """Proof that prefill and decode are apart: who computed a prompt, and what carried its KV."""
    from raypd.live.verify import run

    raise typer.Exit(run(release, namespace, kubeconfig, context, timeout, api_key, output.value))


@app.command()
def down(
    release: Release = "llm",
    namespace: Namespace = "inference",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    delete_claims: Annotated[
        bool, typer.Option("--delete-claims", help="Delete the release's volumes as well.")
    ] = False,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, help="Seconds to wait until all of it is gone.")
    ] = 600,
    output: Output = Format.human,
) -> None:
    """Say what will be deleted and what stays, delete it, and wait until it is gone."""
    from raypd.live.down import run

    raise typer.Exit(
        run(
            release,
            namespace,
            kubeconfig,
            context,
            yes,
            delete_claims,
            timeout,
            output.value,
        )
    )
