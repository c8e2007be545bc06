"""The picture: memory of a card, and bandwidth against the length of prompts.

Matplotlib, because it writes a PNG or SVG file by itself, without a browser or a display.
"""

from __future__ import annotations

from pathlib import Path

from raypd.plan import rates
from raypd.plan.assess import Assessment
from raypd.plan.shape import ModelShape, kv_bytes_per_token
from raypd.report import UsageError

FORMATS = (".png", ".svg", ".pdf")


def check_path(path: Path) -> None:
    """Raises UsageError for a file that no picture can be written to."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path}: the name must end in {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}.")


def draw(path: Path, shape: ModelShape, numbers: Assessment, max_context: int) -> None:
    """Writes the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _memory(left, numbers)
    _bandwidth(right, shape, numbers, max_context)
    figure.suptitle(f"{shape.name} (estimates)")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise UsageError(f"--plot {path} cannot be written: {error}") from error


def _memory(axes, numbers: Assessment) -> None:
    names = [f"{r.role.name}\n{r.role.engine.card.model}" for r in numbers.roles]
    below = [0.0] * len(names)
    for label, sizes in (
        ("weights", [r.weights for r in numbers.roles]),
        ("reserve", [r.reserve for r in numbers.roles]),
        ("KV", [max(0.0, r.room) for r in numbers.roles]),
    ):
        heights = [size / 1e9 for size in sizes]
        axes.bar(names, heights, bottom=below, label=label, width=0.5)
        below = [sum(pair) for pair in zip(below, heights, strict=True)]
    for position, role in enumerate(numbers.roles):
        axes.hlines(
            role.budget / 1e9,
            position - 0.3,
            position + 0.3,
            colors="black",
            label="may be taken" if position == 0 else None,
        )
    axes.set(ylabel="GB of each card", title="Memory")
    _legend(axes)


def _bandwidth(axes, shape: ModelShape, numbers: Assessment, max_context: int) -> None:
    role = numbers.prefill.role
    lengths = [max_context * part / 40 for part in range(1, 41)]
    kv = kv_bytes_per_token(shape, role.engine.kv_bytes)
    made = [
        (rates.prefill_rate(shape, role.engine, n) * (kv + shape.state_bytes / n)) / 1e9
        for n in lengths
    ]
    axes.plot(lengths, made, label="KV that prefill makes")
    if numbers.wire:
        axes.axhline(numbers.wire / 1e9, color="black", linestyle="--", label="the wire")
    axes.set(xlabel="tokens of a prompt", ylabel="GB/s", title="KV bandwidth")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _legend(axes) -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, frameon=False)
