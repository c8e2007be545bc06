"""The cluster by hand: PYTHONPATH=tests python -m cluster.devcluster up|status|down"""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from cluster import target
from cluster.devcluster import lifecycle, state
from raypd.report import UsageError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
Name = Annotated[str, typer.Option(help="Several clusters can be up, each under its name.")]


@app.command()
def up(name: Name = "dev") -> None:
    """Makes the cluster, or leaves it when it is up, and says how to use it."""
    begin = time.monotonic()
    cluster = lifecycle.up(name, lambda text: print(f"{time.monotonic() - begin:5.1f} s  {text}"))
    values = target.fit(cluster)
    print(f"{time.monotonic() - begin:5.1f} s  up\nexport KUBECONFIG={cluster.kubeconfig}")
    print(f"What lets the chart's values files run on it: --values {values}")


@app.command()
def status(name: Name = "dev") -> None:
    """Lists every daemon of the cluster; exit code 1 unless all live."""
    cluster = state.find(name)
    if cluster is None:
        raise UsageError(f"there is no cluster {name}: make it with `up`.")
    found = list(lifecycle.daemons(cluster))
    for machine, daemon, alive in found:
        print(f"{machine:15} {daemon:25} {'alive' if alive else 'DEAD'}")
    print(f"KUBECONFIG={cluster.kubeconfig}")
    raise typer.Exit(0 if found and all(alive for *_, alive in found) else 1)


@app.command()
def down(name: Name = "dev") -> None:
    """Ends the cluster and removes all that it made on this machine; caches stay."""
    print("down" if lifecycle.down(name) else f"there is no cluster {name}")


if __name__ == "__main__":
    try:
        app()
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
