"""The alerts as written: parsed, confined to their release, documented, on known metrics."""

from __future__ import annotations

import re

import pytest

from chart.monitoring.objects import MODES, Monitored, alerts, in_mode, one
from chart.monitoring.promql import exported, matchers, selectors
from chart.rendering import ROOT, Manifest

THRESHOLDS = {
    "ttftSeconds": "LLMTimeToFirstTokenHigh",
    "interTokenSeconds": "LLMInterTokenLatencyHigh",
    "kvTransferGBps": "LLMKVTransferSlow",
    "queueSeconds": "LLMQueueTimeHigh",
}


@pytest.fixture(params=MODES)
def rules(request: pytest.FixtureRequest, monitored: Monitored) -> list[Manifest]:
    return alerts(monitored(*in_mode(request.param)))


def test_every_selector_is_confined_to_namespace_and_release(rules: list[Manifest]) -> None:
    for rule in rules:
        for selector in selectors(rule["expr"]):
            found = matchers(selector)
            assert (found["namespace"], found["release"]) == ("inference", "llm"), rule["alert"]


def test_every_metric_is_listed(rules: list[Manifest], metrics: Manifest) -> None:
    known = exported(metrics).keys() | {"up"}  # `up` is Prometheus's own
    used = {selector.name for rule in rules for selector in selectors(rule["expr"])}
    assert used <= known


def test_every_role_asked_for_exports_the_metric(monitored: Monitored, metrics: Manifest) -> None:
    names = exported(metrics)
    for rule in alerts(monitored()):
        for selector in selectors(rule["expr"]):
            if selector.name != "up" and (role := matchers(selector).get("role")):
                assert role in metrics[names[selector.name]]["roles"], rule["alert"]


def test_every_alert_says_what_is_wrong_and_how_bad(rules: list[Manifest]) -> None:
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}
        assert re.fullmatch(r"\d+m", rule["for"])
        assert not re.search(r"%\w+%", str(rule)), f"a placeholder is left in {rule['alert']}"


def test_no_alert_twice_and_none_without_a_runbook(rules: list[Manifest]) -> None:
    names = [rule["alert"] for rule in rules]
    assert len(names) == len(set(names))
    headings = re.findall(
        r"^### (LLM\w+)$", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE
    )
    assert set(names) <= set(headings)


def test_the_runbook_has_no_alert_that_does_not_exist(monitored: Monitored) -> None:
    headings = re.findall(
        r"^### (LLM\w+)$", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE
    )
    assert sorted(headings) == sorted(rule["alert"] for rule in alerts(monitored()))


def test_kv_alerts_are_for_disaggregation_only(monitored: Monitored) -> None:
    for mode in ("aggregated", "multinode"):
        rules = alerts(monitored(*in_mode(mode)))
        assert not [r["alert"] for r in rules if "nixl" in r["expr"] or "prefill" in r["expr"]]


@pytest.mark.parametrize("key", THRESHOLDS)
@pytest.mark.parametrize("value", ["0.125", "1500000"])
def test_thresholds_arrive_as_written(monitored: Monitored, key: str, value: str) -> None:
    setting = f"monitoring.prometheusRule.thresholds.{key}={value}"
    rules = alerts(monitored("--set-json", setting))
    (rule,) = (rule for rule in rules if rule["alert"] == THRESHOLDS[key])
    assert re.search(rf"[<>] {re.escape(value)}\b", rule["expr"])
    assert value in rule["annotations"]["description"]


def test_runbook_links_lead_to_the_headings(monitored: Monitored) -> None:
    base = "https://example.org/monitoring.md"
    for rule in alerts(monitored("--set", f"monitoring.prometheusRule.runbookBaseUrl={base}")):
        assert rule["annotations"]["runbook_url"] == f"{base}#{rule['alert'].lower()}"


def test_a_long_release_name_is_matched_as_the_pods_carry_it(monitored: Monitored) -> None:
    manifests = monitored("name=" + "r" * 53)
    selector = one(manifests, "PodMonitor")["spec"]["selector"]["matchLabels"]
    for rule in alerts(manifests):
        for found in map(matchers, selectors(rule["expr"])):
            assert found["release"] == selector["app.kubernetes.io/instance"]
