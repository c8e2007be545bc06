"""What a PromQL expression reads, by a parser that also checks types and function names."""

from __future__ import annotations

import promql_parser

from chart.rendering import Manifest

SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """Every series selector in the expression. ValueError when it is not PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def matchers(selector: promql_parser.VectorSelector) -> dict[str, str]:
    """Label -> value of the selector's matchers."""
    return {matcher.name: matcher.value for matcher in selector.matchers.matchers}


def exported(metrics: Manifest) -> dict[str, str]:
    """Names as scraped -> name in metrics.yaml."""
    return {
        name + suffix: name for name, facts in metrics.items() for suffix in SUFFIXES[facts["type"]]
    }
