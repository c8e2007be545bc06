"""Whether a Prometheus takes up the PodMonitor and the alerts, and reaches the pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raypd.label_selector import selects
from raypd.lint.subject import mapping, warning
from raypd.live.install.policy import head_labels, policies
from raypd.network_policy import NAME_LABEL, Caller, admits
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


def prometheus_let_in(site: Site) -> Iterator[Outcome]:
    """The release's NetworkPolicy lets each Prometheus that takes up the PodMonitor read metrics."""
    monitors = [m for m in site.rendered.manifests if m.get("kind") == "PodMonitor"]
    made = policies(site.rendered)
    if not monitors or not made:
        yield Idle("no PodMonitor is made" if made else "no NetworkPolicy is made")
        return
    (monitor,) = monitors
    port = _metrics_port(site)
    selector, spaces, _ = _SELECTORS["PodMonitor"]
    labels = mapping(monitor["metadata"].get("labels"))
    takers = [p for p in site.kube.list(_PROMETHEUSES) if _takes(site, p, selector, spaces, labels)]
    for namespace in sorted({str(taker["metadata"]["namespace"]) for taker in takers}):
        space = site.kube.get(f"/api/v1/namespaces/{namespace}") or {}
        caller = Caller(namespace, None, mapping(mapping(space.get("metadata")).get("labels")))
        if admits(made, site.namespace, head_labels(site.rendered), caller, port):
            yield Seen(namespace)
        else:
            yield warning(
                "RPD858",
                "networkPolicy.prometheus",
                f"The Prometheus of namespace {namespace} takes up the PodMonitor, and the release's "
                f"NetworkPolicy keeps it from the pods' port {port}: where the network enforces "
                "policies, every target is down.",
                "`networkPolicy.prometheus: [{namespaceSelector: {matchLabels: "
                f"{{{NAME_LABEL}: {namespace}}}}}}}]`",
            )


def _metrics_port(site: Site) -> int:
    head = mapping(site.kube.case.subject.cluster.get("headGroupSpec"))
    return int(mapping(head.get("rayStartParams"))["metrics-export-port"])


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


CHECKS = [
    ("a Prometheus for the PodMonitor and the alerts", prometheus_selects),
    ("a way for Prometheus to the pods", prometheus_let_in),
]
