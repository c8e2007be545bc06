"""Finding monitoring's objects in what the chart renders."""

from __future__ import annotations

from collections.abc import Callable

from chart.rendering import ROOT, Manifest

Monitored = Callable[..., list[Manifest]]
# One ready values file for each mode.
MODES = {
    "disaggregated": "g6-qwen3.5-9b",
    "aggregated": "g6-qwen3.5-9b-aggregated",
    "multinode": "g6-qwen2.5-14b-multinode",
}


def in_mode(mode: str) -> tuple[str, str]:
    """Helm's options that render a mode."""
    return ("-f", str(ROOT / "values" / f"{MODES[mode]}.yaml"))


def one(manifests: list[Manifest], kind: str) -> Manifest:
    """The only object of a kind that belongs to monitoring."""
    (found,) = (
        manifest
        for manifest in manifests
        if manifest["kind"] == kind
        and manifest["metadata"]["labels"].get("app.kubernetes.io/component") == "monitoring"
    )
    return found


def alerts(manifests: list[Manifest]) -> list[Manifest]:
    """All alerts of the rendered PrometheusRule, without their groups."""
    groups = one(manifests, "PrometheusRule")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]
