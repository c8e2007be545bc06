"""The dashboards: made by scripts/dashboards and nothing else, on known metrics, readable by Grafana."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from chart.monitoring.objects import Monitored, alerts, one
from chart.monitoring.promql import exported, matchers, selectors
from chart.rendering import ROOT, Manifest

FILES = sorted((ROOT / "charts/ray-pd-llm/files/dashboards").glob("*.json"))


def panels(dashboard: Manifest) -> list[Manifest]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard: Manifest) -> list[str]:
    """The queries with Grafana's own variables given a value, as Grafana does before it asks."""
    return [
        re.sub(r"\$__(rate_interval|range)", "5m", target["expr"])
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Manifest:
    return json.loads(request.param.read_text())


def test_the_files_are_what_the_script_makes() -> None:
    check = [sys.executable, str(ROOT / "scripts/dashboards"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stderr}Run: python scripts/dashboards"


def test_there_are_the_two_dashboards() -> None:
    assert [path.stem for path in FILES] == ["kv-transfer", "serving"]


def test_every_query_is_confined_to_the_chosen_release(dashboard: Manifest) -> None:
    for expression in expressions(dashboard):
        assert selectors(expression)
        for found in map(matchers, selectors(expression)):
            assert (found["namespace"], found["release"]) == ("$namespace", "$release")


def test_every_metric_is_listed(dashboard: Manifest, metrics: Manifest) -> None:
    used = {s.name for expression in expressions(dashboard) for s in selectors(expression)}
    assert used <= exported(metrics).keys()


def test_every_listed_metric_has_a_user(monitored: Monitored, metrics: Manifest) -> None:
    written = [rule["expr"] for rule in alerts(monitored())]
    written += [e for path in FILES for e in expressions(json.loads(path.read_text()))]
    names = exported(metrics)
    used = {names.get(selector.name) for e in written for selector in selectors(e)}
    assert metrics.keys() <= used


def test_panels_fill_the_grid_without_overlap(dashboard: Manifest) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert all(x < 24 for x, _ in cells)
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_data_source_namespace_and_release_are_variables(dashboard: Manifest) -> None:
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert list(variables) == ["datasource", "namespace", "release"]
    sources = {target["datasource"]["uid"] for p in panels(dashboard) for target in p["targets"]}
    assert sources == {"${datasource}"}


def test_legends_name_labels_that_the_query_keeps(dashboard: Manifest) -> None:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), panel["title"]


def test_the_configmap_carries_the_files_unchanged(monitored: Monitored) -> None:
    manifests = monitored("--set", "monitoring.dashboards.annotations.grafana_folder=LLM")
    configmap = one(manifests, "ConfigMap")
    assert configmap["data"] == {path.name: path.read_text().strip() for path in FILES}
    assert configmap["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert configmap["metadata"]["annotations"]["grafana_folder"] == "LLM"
    assert len(yaml.safe_dump(configmap)) < 1024 * 1024  # etcd's limit for an object
