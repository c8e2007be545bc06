"""Whether a Prometheus takes up the PodMonitor and the alerts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raypd.lint.subject import mapping, warning
from raypd.preflight.kubernetes.endpoint import selects
from raypd.preflight.outcome import Idle, Outcome, Seen
from raypd.preflight.site import Site

Json = dict[str, Any]

_PROMETHEUSES = "/apis/monitoring.coreos.com/v1/prometheuses"
_SELECTORS = {
    "PodMonitor": ("podMonitorSelector", "podMonitorNamespaceSelector", "podMonitor"),
    "PrometheusRule": ("ruleSelector", "ruleNamespaceSelector", "prometheusRule"),
}


def prometheus_selects(site: Site) -> Iterator[Outcome]:
    """Some Prometheus selects each of them by its labels and its namespace."""
    wanted = [m for m in site.rendered.manifests if m.get("kind") in _SELECTORS]
    if not wanted:
        yield Idle("neither is made")
        return
    prometheuses = site.kube.list(_PROMETHEUSES)
    for manifest in wanted:
        kind, metadata = str(manifest["kind"]), manifest["metadata"]
        selector, spaces, block = _SELECTORS[kind]
        takers = [
            f"{found['metadata']['namespace']}/{found['metadata']['name']}"
            for found in prometheuses
            if _takes(site, found, selector, spaces, mapping(metadata.get("labels")))
        ]
        if takers:
            yield Seen(f"{kind} by {', '.join(takers)}")
            continue
        wants = [
            f"{found['metadata']['name']} wants {_labels(found, selector)}"
            for found in prometheuses
        ]
        yield warning(
            "RPD857",
            f"monitoring.{block}.labels",
            f"No Prometheus of the cluster selects the {kind} {metadata['name']}, so nothing comes "
            f"of it ({'; '.join(wants) or 'there is none'}).",
            f"The labels that it wants in `monitoring.{block}.labels`.",
        )


def _takes(site: Site, prometheus: Json, selector: str, spaces: str, have: Json) -> bool:
    """As Prometheus' operator decides: no selector selects nothing, an empty one all; no selector of
    namespaces means its own."""
    spec = mapping(prometheus.get("spec"))
    if spec.get(selector) is None or not selects(mapping(spec[selector]), have):
        return False
    if spec.get(spaces) is None:
        return bool(prometheus["metadata"]["namespace"] == site.namespace)
    space = mapping((site.kube.case.facts.namespace or {}).get("metadata"))
    own = {"kubernetes.io/metadata.name": site.namespace, **mapping(space.get("labels"))}
    return selects(mapping(spec[spaces]), own)


def _labels(prometheus: Json, selector: str) -> str:
    wanted = mapping(prometheus.get("spec")).get(selector)
    if wanted is None:
        return "none"
    pairs = mapping(wanted).get("matchLabels") or {}
    return ", ".join(f"{key}={value}" for key, value in pairs.items()) or "all, of its namespaces"


CHECKS = [("a Prometheus for the PodMonitor and the alerts", prometheus_selects)]
