"""Options that several verbs share, so that they mean and are called the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from raypd.render.helm import ValueArguments


class Format(StrEnum):
    """Form of what a verb prints."""

    human = "human"
    json = "json"


def repeatable(*names: str, help: str) -> Any:
    """An option that may be given many times."""
    return typer.Option(*names, help=help, default_factory=list, show_default=False)


Values = Annotated[list[Path], repeatable("--values", "-f", help="A values file; later ones win.")]
Set = Annotated[list[str], repeatable("--set", help="path=value, as Helm takes it.")]
SetString = Annotated[list[str], repeatable("--set-string", help="path=value, kept a string.")]
SetFile = Annotated[list[str], repeatable("--set-file", help="path=file, its content the value.")]
SetJson = Annotated[list[str], repeatable("--set-json", help="path=JSON.")]
Chart = Annotated[
    Path | None, typer.Option("--chart", help="Chart folder or .tgz; default: this checkout's.")
]
Release = Annotated[str, typer.Option("--release", help="Name of the Helm release.")]
ServingRelease = Annotated[
    str, typer.Option("--release", help="A Helm release that serves in a cluster.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the release.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="For people, or JSON for programs.")]


def value_arguments(
    values: list[Path],
    set_: list[str],
    set_string: list[str],
    set_file: list[str],
    set_json: list[str],
) -> ValueArguments:
    """The options that give values, as one."""
    from raypd.render.helm import ValueArguments

    return ValueArguments(values, set_, set_string, set_file, set_json)
