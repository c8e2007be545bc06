"""The parts of a Grafana dashboard: queries, panels, rows, and the frame around them.

Queries are PromQL with `@` for the labels that the dashboard's variables select and `@w` for the
window, so that an expression reads as in Prometheus:

    sum by (role) (rate(ray_vllm_generation_tokens_total{@}[@w]))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SCOPE = 'namespace="$namespace",release="$release"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 41  # Grafana 11.6; newer ones migrate it, older ones read it
WIDTH = 24  # Grafana's grid


@dataclass(frozen=True)
class Query:
    """One PromQL expression and the legend of its series (Grafana's `{{label}}` form)."""

    expr: str
    legend: str

    def target(self, ref: str) -> Json:
        expr = self.expr.replace("@w", "$__rate_interval").replace("@", SCOPE)
        return {"datasource": DATASOURCE, "expr": expr, "legendFormat": self.legend, "refId": ref}


@dataclass(frozen=True)
class Panel:
    """A graph over time, or with `kind="stat"` the last value as a number.

    `unit` is Grafana's id of the unit (`s`, `Bps`, `reqps`, `percentunit` ...). `bad` is the value
    from which a stat turns red.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    bad: float | None = None

    def json(self) -> Json:
        steps: list[Json] = [{"color": "green", "value": None}]
        if self.bad is not None:
            steps.append({"color": "red", "value": self.bad})
        defaults: Json = {
            "unit": self.unit,
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": steps},
        }
        if self.kind == "stat":
            options: Json = {"colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
        else:
            defaults["custom"] = {"fillOpacity": 8, "showPoints": "never", "spanNulls": False}
            options = {
                "legend": {
                    "displayMode": "table",
                    "placement": "bottom",
                    "calcs": ["lastNotNull", "max"],
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        return {
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": options,
            "targets": [query.target(chr(ord("A") + n)) for n, query in enumerate(self.queries)],
        }


@dataclass(frozen=True)
class Row:
    """A titled line of panels of equal width; `height` in grid units."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8


@dataclass(frozen=True)
class Dashboard:
    """One file of charts/ray-pd-llm/files/dashboards/, named after `name`."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]

    def json(self) -> Json:
        panels: list[Json] = []
        y = 0
        for row in self.rows:
            panels.append({"type": "row", "title": row.title, "collapsed": False, "panels": []})
            panels[-1]["gridPos"] = {"x": 0, "y": y, "w": WIDTH, "h": 1}
            width = WIDTH // len(row.panels)
            for column, panel in enumerate(row.panels):
                grid = {"x": column * width, "y": y + 1, "w": width, "h": row.height}
                panels.append(panel.json() | {"gridPos": grid})
            y += 1 + row.height
        for number, panel in enumerate(panels, start=1):
            panel["id"] = number
        return {
            "uid": f"ray-pd-llm-{self.name}",
            "title": self.title,
            "description": self.description,
            "tags": ["ray-pd-llm"],
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,  # one cross-hair over all panels
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [
                {
                    "type": "dashboards",
                    "tags": ["ray-pd-llm"],
                    "title": "ray-pd-llm",
                    "asDropdown": False,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "templating": {"list": _variables()},
            "annotations": {"list": []},
            "panels": panels,
        }


def quantiles(metric: str, by: str, legend: str, levels: tuple[float, ...]) -> tuple[Query, ...]:
    """One query per level over a histogram; `by` names labels to keep beside `le`, or is empty."""
    kept = f"{by}, le" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({level}, sum by ({kept}) (rate({metric}_bucket{{@}}[@w])))",
            f"p{level * 100:g} {legend}".strip(),
        )
        for level in levels
    )


def _variables() -> list[Json]:
    """Data source, namespace and release, found by a metric that is there from the start."""

    def label(name: str, selector: str) -> Json:
        query = f"label_values(ray_serve_deployment_status{selector}, {name})"
        return {
            "name": name,
            "type": "query",
            "datasource": DATASOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "refresh": 2,  # when the time range changes
            "sort": 1,
        }

    return [
        {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
        label("namespace", ""),
        label("release", '{namespace="$namespace"}'),
    ]
