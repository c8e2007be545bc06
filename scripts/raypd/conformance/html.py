"""The report as one HTML page that needs nothing beside it."""

from __future__ import annotations

import re
from html import escape
from itertools import groupby

from raypd.conformance.outcome import Result
from raypd.conformance.report import Report, clean

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
table { border-collapse: collapse; table-layout: fixed; width: 100%; }
td { border-bottom: 1px solid #ccc; overflow-wrap: anywhere; padding: .35rem .6rem; vertical-align: top; }
td:first-child { width: 35%; } .id { color: #666; font: 12px monospace; }
pre { background: #f4f4f4; overflow-x: auto; padding: .5rem; white-space: pre-wrap; }
.verdict { font-weight: 600; white-space: nowrap; width: 9.5rem; }
.pass { color: #176e2c; } .fail { color: #b3161b; }
.known-gap, .not-run { color: #8a5a00; } .not-applicable { color: #666; }
"""


def page(report: Report) -> str:
    """A table for each group; a deviation opens to what the server answered."""
    groups = groupby(report.results, key=lambda result: result.group)
    tables = "".join(
        f"<h2>{escape(group)}</h2>\n<table>\n{''.join(map(_row, results))}</table>\n"
        for group, results in groups
    )
    against = f" Compared with {_text(report.reference)}." if report.reference else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Conformance of {_text(report.model)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{_text(report.model)}</h1>\n"
        f"<p>{escape(report.url)}: {escape(report.verdict)}{against}</p>\n{tables}</body>\n</html>\n"
    )


def _row(result: Result) -> str:
    kind = result.verdict.lower().replace(" ", "-")
    seen = "".join(f"<div>{_text(words)}</div>" for words in result.words)
    seen += "".join(
        f"<div>{_code(gap['gap'])} Upstream: {_text(gap['upstream'])}.</div>" for gap in result.gaps
    )
    seen += "".join(
        f"<details><summary>HTTP {wrong.status}</summary><pre>{_text(wrong.body)}</pre></details>"
        for wrong in result.wrongs
        if wrong.status is not None
    )
    return (
        f'<tr><td>{_text(result.title)}<div class="id">{escape(result.id)}</div></td>'
        f'<td class="verdict {kind}">{result.verdict}</td><td>{seen}</td></tr>\n'
    )


def _code(text: str) -> str:
    """What stands between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", _text(text))


def _text(text: str) -> str:
    return escape(clean(text))
