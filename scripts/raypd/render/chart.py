"""Where the chart lies, and a chart as a folder whatever form it was given in."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raypd import yaml_text
from raypd.report import UsageError


def default_chart() -> Path:
    """The chart of this checkout, charts/ray-pd-llm."""
    chart = Path(__file__).resolve().parents[3] / "charts" / "ray-pd-llm"
    if not (chart / "Chart.yaml").is_file():
        raise UsageError(
            f"There is no chart at {chart}: raypd runs outside its checkout. "
            "Say where the chart is with --chart."
        )
    return chart


@contextmanager
def as_folder(chart: Path) -> Iterator[Path]:
    """The chart's folder; a packaged chart is unpacked for as long as the context lasts."""
    if chart.is_dir():
        yield chart
        return
    with tempfile.TemporaryDirectory(prefix="raypd-chart-") as scratch:
        try:
            with tarfile.open(chart) as package:
                package.extractall(scratch, filter="data")
        except (OSError, tarfile.TarError) as error:
            raise UsageError(
                f"The chart {chart} is no folder and no chart package: {error}"
            ) from error
        (metadata,) = Path(scratch).glob("*/Chart.yaml")  # Helm has read it before
        yield metadata.parent


def tables(chart: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Tables of the chart's files/ by their names, as "models"; {} for one that the chart has not."""
    with as_folder(chart) as folder:
        found = {name: next(folder.glob(f"files/{name}.*"), None) for name in names}
        return {
            name: yaml_text.load(path.read_text(encoding="utf-8"))
            if path
            else {}  # JSON is YAML, too
            for name, path in found.items()
        }
