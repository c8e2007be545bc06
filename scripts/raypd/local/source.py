"""What to run: the chart rendered for this machine, with the tiny model where it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raypd.local import tiny_model
from raypd.render import (
    Rendered,
    ValueArguments,
    default_chart,
    from_manifest,
    manifest_text,
    render,
)
from raypd.report import UsageError
from raypd.toolchain import cache_dir, runtime_python
from raypd.toolchain.cache import once
from raypd.toolchain.process import run

_MOUNT = "/cache"  # cache.mountPath of values/local-cpu.yaml, and in it the tiny model's place:
_TINY_MODEL = "/cache/models/tiny-qwen3"


def load(chart: Path | None, given: ValueArguments, volume: Path | None = None) -> Rendered:
    """The chart rendered with values/local-cpu.yaml, then the given values on top.

    The cache volume becomes the folder `volume`, or one of raypd's own cache, by the chart's own
    values, so that every path in the render exists here as it is written.
    """
    chart = chart or default_chart()
    base = default_chart().parents[1] / "values" / "local-cpu.yaml"
    values = [base, *given.values]

    def rendered(set_string: list[str]) -> Rendered:
        own = [*set_string, *given.set_string]
        return render(chart, replace(given, values=values, set_string=own))

    folder = volume or cache_dir() / "local" / "volume"
    folder.mkdir(parents=True, exist_ok=True)
    first = rendered([f"cache.mountPath={folder}"])
    if _sources(first) == {_TINY_MODEL}:
        model = tiny_model_folder()
        return rendered([f"cache.mountPath={folder}", f"model.source={model}"])
    if any(source.startswith(f"{_MOUNT}/") for source in _sources(first)):
        raise UsageError(
            f"model.source: a local run has no {_MOUNT}; its cache folder is {folder}. Put the model"
            f" there and write its whole path, or take {_TINY_MODEL}, which raypd makes itself."
        )
    return first


def from_file(manifest: Path) -> Rendered:
    """What was rendered elsewhere, for a machine without Helm; its paths must exist here."""
    return from_manifest(manifest_text(manifest, "--manifest"), str(manifest))


def tiny_model_folder() -> Path:
    """Folder of the tiny model, made by the CPU runtime's Python on first use."""

    def make(folder: Path) -> None:
        run([runtime_python(), tiny_model.__file__, folder])

    name = f"local/models/tiny-qwen3-{tiny_model.VERSION}"
    return once(name, "Making the tiny model", make)


def _sources(rendered: Rendered) -> set[str]:
    """The model sources of all engines."""
    args = rendered.serve_config["applications"][0]["args"]
    configs = [args[k] for k in ("prefill_config", "decode_config") if k in args]
    configs += args.get("llm_configs") or []
    return {c["model_loading_config"].get("model_source", "") for c in configs}
