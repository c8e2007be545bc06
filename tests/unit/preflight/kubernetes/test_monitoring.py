"""Whether a Prometheus takes up what the release makes for it."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.preflight.kubernetes.monitoring import prometheus_let_in, prometheus_selects
from raypd.preflight.site import Site
from unit.live import paper
from unit.preflight.kubernetes.good import Cluster, on
from unit.preflight.simulated import codes, only, outcomes, seen

LABELLED = ("monitoring.podMonitor.enabled=true", "monitoring.podMonitor.labels.release=kps")


def prometheus(namespace: str = "monitoring", **spec: Any) -> dict[str, Any]:
    found = {"metadata": {"name": "k8s", "namespace": namespace}, "spec": spec}
    return {"/apis/monitoring.coreos.com/v1/prometheuses/k8s": found}


def monitored(objects: dict[str, Any], *set_: str) -> Site:
    return on(Cluster(objects), paper.rendered(*(set_ or LABELLED)))


KPS = {"matchLabels": {"release": "kps"}}


@pytest.mark.parametrize(
    "objects",
    [
        prometheus(podMonitorSelector=KPS, podMonitorNamespaceSelector={}),
        prometheus(podMonitorSelector={}, podMonitorNamespaceSelector={}),
        prometheus("inference", podMonitorSelector=KPS),
        prometheus(
            podMonitorSelector=KPS,
            podMonitorNamespaceSelector={
                "matchLabels": {"kubernetes.io/metadata.name": "inference"}
            },
        ),
    ],
)
def test_a_prometheus_that_selects_it(objects: dict[str, Any]) -> None:
    found = outcomes(prometheus_selects, monitored(objects))
    assert codes(found) == []
    assert "PodMonitor by" in seen(found)


@pytest.mark.parametrize(
    "objects",
    [
        {},
        prometheus(podMonitorNamespaceSelector={}),
        prometheus(podMonitorSelector=KPS),
        prometheus(
            podMonitorSelector={"matchLabels": {"release": "other"}}, podMonitorNamespaceSelector={}
        ),
    ],
)
def test_none_that_selects_it(objects: dict[str, Any]) -> None:
    finding = only(outcomes(prometheus_selects, monitored(objects)), "RPD857")
    assert finding.path == "monitoring.podMonitor.labels"


def test_alerts_have_a_selector_of_their_own() -> None:
    objects = prometheus(ruleSelector=KPS, ruleNamespaceSelector={}, podMonitorSelector={})
    enabled = "monitoring.prometheusRule.enabled=true"
    labelled = f"{enabled},monitoring.prometheusRule.labels.release=kps"
    assert codes(outcomes(prometheus_selects, monitored(objects, labelled))) == []
    finding = only(outcomes(prometheus_selects, monitored(objects, enabled)), "RPD857")
    assert "k8s wants release=kps" in finding.message


ALL_SPACES = {"podMonitorSelector": KPS, "podMonitorNamespaceSelector": {}}


def test_a_prometheus_that_the_network_policy_lets_in() -> None:
    found = outcomes(prometheus_let_in, monitored(prometheus(**ALL_SPACES)))
    assert seen(found) == "monitoring"


def test_a_prometheus_that_the_network_policy_keeps_out() -> None:
    objects = prometheus("observability", **ALL_SPACES)
    finding = only(outcomes(prometheus_let_in, monitored(objects)), "RPD858")
    assert finding.path == "networkPolicy.prometheus"
    assert "namespace observability" in finding.message
    assert "kubernetes.io/metadata.name: observability" in finding.remedy


def test_a_prometheus_by_a_label_of_its_namespace() -> None:
    peer = "networkPolicy.prometheus[0].namespaceSelector.matchLabels.team=platform"
    objects = prometheus("observability", **ALL_SPACES)
    made = monitored(objects, *LABELLED, peer)
    assert codes(outcomes(prometheus_let_in, made)) == ["RPD858"]
    labels = {"team": "platform"}
    objects["/api/v1/namespaces/observability"] = {"metadata": {"labels": labels}}
    made = monitored(objects, *LABELLED, peer)
    assert codes(outcomes(prometheus_let_in, made)) == []


def test_a_prometheus_that_takes_up_nothing_is_not_judged() -> None:
    found = outcomes(prometheus_let_in, monitored(prometheus("observability")))
    assert codes(found) == []


def test_nothing_stands_in_the_way_of_prometheus() -> None:
    objects = prometheus("observability", **ALL_SPACES)
    open_to_all = monitored(objects, *LABELLED, "networkPolicy.enabled=false")
    assert seen(outcomes(prometheus_let_in, open_to_all)) == "no NetworkPolicy is made"
    assert seen(outcomes(prometheus_let_in, on())) == "no PodMonitor is made"


def test_nothing_is_made_for_prometheus() -> None:
    assert seen(outcomes(prometheus_selects, on())) == "neither is made"
