"""What a measurement hands back: rows of figures, beside what they were measured with and on.

The same results are a JSON file for programs, a table for people, pictures as PNG files, and one
HTML page that needs nothing beside it.
"""

from __future__ import annotations

import io
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from raypd import gpus
from raypd.report import Output, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


class Results(BaseModel):
    """One measurement. A row's keys are the verb's own and the same in all its rows; a figure that
    could not be measured is None, and the row's `error` then says why, in a sentence."""

    model_config = ConfigDict(extra="forbid")

    command: str
    date: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: dict[str, str]
    hardware: dict[str, str | int | float]
    rows: list[Row]
    notes: list[str] = []

    @property
    def exit_code(self) -> int:
        """1 if something could not be measured."""
        return int(any(row.get("error") for row in self.rows))

    def measured_with(self) -> str:
        """Machine and versions in one line."""
        told = [f"{value} {_UNITS.get(name, '')}".strip() for name, value in self.hardware.items()]
        return ", ".join(told + [f"{name} {version}" for name, version in self.versions.items()])


_WIDTH = 150
_UNITS = {"cores": "cores", "memory_gib": "GiB", "gpus": "GPUs"}


@dataclass(frozen=True)
class Column:
    """A column of the table: the row's key, its heading, and how a value is written."""

    key: str
    title: str
    form: Callable[[Any], str] = str
    right: bool = False

    def cell(self, row: Row) -> str:
        value = row.get(self.key)
        return "" if value is None else self.form(value)


def number(digits: int = 3) -> Callable[[float], str]:
    """Writes a figure with so many significant digits, and never with an exponent."""

    def form(value: float) -> str:
        rounded = float(f"{value:.{digits}g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"

    return form


@dataclass(frozen=True)
class Files:
    """Where results go beside the terminal: the options --json, --html and --png."""

    json: Path | None = None
    html: Path | None = None
    png: Path | None = None

    def check(self) -> None:
        """Before anything is measured. Raises UsageError for a file that cannot be written."""
        for option, file in (("--json", self.json), ("--html", self.html)):
            if file is not None and not file.absolute().parent.is_dir():
                raise UsageError(
                    f"{option} {file}: there is no folder {file.absolute().parent} to write to."
                )
        if self.png is not None and self.png.exists() and not self.png.is_dir():
            raise UsageError(f"--png {self.png}: that is a file; name a folder for the pictures.")

    def keep(self, results: Results) -> None:
        """What there is so far: a measurement that is ended before its time leaves that."""
        if self.json is not None:
            _write("--json", self.json, results.model_dump_json(indent=2) + "\n")


@dataclass(frozen=True)
class Presentation:
    """How the results of one verb are shown. `draw` makes the pictures, by file name without
    ending; it is called only where a picture is wanted, since plotting is slow to import."""

    title: str
    columns: Sequence[Column]  # of which those are shown that some row has something for
    draw: Callable[[Results], Mapping[str, Figure]] = field(default=lambda results: {})

    def columns_of(self, results: Results) -> list[Column]:
        """The columns that are shown."""
        return [column for column in self.columns if any(map(column.cell, results.rows))]


def publish(results: Results, shown: Presentation, files: Files, output: Output) -> int:
    """Writes the files, prints the table or the JSON, and returns the exit code."""
    files.keep(results)
    if files.html is not None or files.png is not None:
        pictures = shown.draw(results)
        if files.html is not None:
            _write("--html", files.html, page(results, shown, pictures))
        if files.png is not None:
            _write_pictures(files.png, pictures)
    if output == "json":
        print(results.model_dump_json(indent=2))
    else:
        print_table(results, shown)
    return results.exit_code


def print_table(results: Results, shown: Presentation, file: IO[str] | None = None) -> None:
    """The rows as people read them, below what they were measured with."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = file or sys.stdout
    # Eighty columns are what Rich takes where there is no terminal, too few for a table of figures.
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDTH
    console = Console(file=stream, width=width, highlight=False)
    console.print(Text(f"{shown.title}: {results.measured_with()}"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = shown.columns_of(results)
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left")
    for row in results.rows:
        table.add_row(*(Text(column.cell(row)) for column in columns))
    console.print(table)
    for note in results.notes:
        console.print(Text(note))


def page(results: Results, shown: Presentation, pictures: Mapping[str, Figure]) -> str:
    """Table and pictures as one HTML page; the pictures are SVG inside it."""
    columns = shown.columns_of(results)
    heads = "".join(f"<th>{escape(column.title)}</th>" for column in columns)
    rows = "".join(
        "<tr>" + "".join(_html_cell(column, row) for column in columns) + "</tr>\n"
        for row in results.rows
    )
    figures = "".join(f"<figure>{_svg(figure)}</figure>\n" for figure in pictures.values())
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in results.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(shown.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(shown.title)}</h1>\n"
        f"<p>{escape(results.date)}: {escape(results.measured_with())}</p>\n"
        f"<pre>{escape(results.command)}</pre>\n{figures}"
        f"<table>\n<tr>{heads}</tr>\n{rows}</table>\n{notes}</body>\n</html>\n"
    )


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .7rem; text-align: left; vertical-align: top; }
td.right { font-variant-numeric: tabular-nums; text-align: right; }
figure { margin: 1rem 0; } figure svg { height: auto; max-width: 100%; }
pre { background: #f4f4f4; padding: .5rem; white-space: pre-wrap; }
"""


def command_line() -> str:
    """The command that runs, as a person would write it."""
    return shlex.join(["raypd", *sys.argv[1:]])


def this_machine() -> dict[str, str | int | float]:
    """Processor, memory and GPUs of this machine."""
    import psutil

    seen: dict[str, str | int | float] = {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
    }
    if cards := gpus.names():
        seen |= {"gpus": len(cards), "gpu": cards[0]}
    return seen


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _html_cell(column: Column, row: Row) -> str:
    kind = ' class="right"' if column.right else ""
    return f"<td{kind}>{escape(column.cell(row))}</td>"


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _write_pictures(folder: Path, pictures: Mapping[str, Figure]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in pictures.items():
            figure.savefig(folder / f"{name}.png", dpi=120)
    except OSError as error:
        raise UsageError(f"--png {folder} cannot be written: {error.strerror}.") from error


def _write(option: str, file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {file} cannot be written: {error.strerror}.") from error
