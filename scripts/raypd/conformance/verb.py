"""`raypd conformance`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from raypd.conformance import html, junit, suite
from raypd.conformance.endpoint import MODELS, Endpoint
from raypd.conformance.outcome import Broken
from raypd.conformance.report import Report
from raypd.conformance.suite import Check
from raypd.report import Output, UsageError


@dataclass(frozen=True)
class Question:
    """What is judged, and how: the options of the command line. Times are in seconds."""

    url: str | None
    key: str | None = None
    model: str | None = None
    reference: str | None = None
    groups: Sequence[str] = ()
    timeout: float = 60
    time_limit: float = 900


def list_checks(groups: Sequence[str], output: Output) -> int:
    """Prints every check: its group, its name, and what holds of a server that is right."""
    chosen = _chosen(groups)
    if output == "json":
        rows = [{"group": c.group, "name": c.name, "title": c.title} for c in chosen]
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("group", "check", "what holds", box=None, pad_edge=False)
    for check in chosen:
        table.add_row(check.group, check.name, check.title)
    Console().print(table)
    return 0


def run_release(
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    question: Question,
    junit_file: Path | None,
    html_file: Path | None,
    output: Output,
) -> int:
    """As `run`, of what a Helm release serves, reached through the cluster's API server."""
    from raypd.live.cluster import Cluster
    from raypd.live.forward import to_pod
    from raypd.live.served import find
    from raypd.live.snapshot import SERVE_PORT

    if question.url:
        raise UsageError("A URL and --release: which of the two? Give one.")
    cluster = Cluster(kubeconfig, context)
    served = find(cluster, release, namespace)
    pod = served.door["metadata"]["name"]
    question = replace(question, url=f"http://{pod}:{SERVE_PORT}{served.prefix}/v1")
    transport = to_pod(cluster, served.namespace, pod)
    return run(question, junit_file, html_file, output, transport)


def run(
    question: Question,
    junit_file: Path | None,
    html_file: Path | None,
    output: Output,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Prints a report, writes the files, and returns the exit code. `transport` is the way to the
    server, None the network.

    Raises UsageError for what is wrong with the call, and when a server cannot be reached.
    """
    checks = _chosen(question.groups)
    for file in (junit_file, html_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(f"{file}: there is no folder {file.absolute().parent} to write to.")
    report = judge(question, checks, transport)
    if junit_file is not None:
        _write(junit_file, junit.document(report))
    if html_file is not None:
        _write(html_file, html.page(report))
    report.print(output)
    return report.exit_code


def judge(
    question: Question,
    checks: Sequence[Check],
    transport: httpx.BaseTransport | None = None,
    of_reference: httpx.BaseTransport | None = None,
) -> Report:
    """Makes the checks. `transport` is the way to the server, `of_reference` that to the other one;
    None is the network."""
    begin = time.monotonic()
    until = begin + question.time_limit
    reference = None
    if question.reference is not None:
        reference = _reached(
            "--reference", question.reference, question.key, None, question, until, of_reference
        )
    endpoint = _reached(
        "URL", question.url, question.key, question.model, question, until, transport, reference
    )
    try:
        with Console(stderr=True).status("Asking ...") as status:
            results = []
            for check in checks:
                status.update(
                    f"{len(results)} of {len(checks)} checks made; {check.group}: {check.name}"
                )
                results += suite.run(endpoint, [check])
        model = endpoint.model
    finally:
        endpoint.close()
        if reference is not None:
            reference.close()
    return Report(
        endpoint.base,
        model,
        reference.base if reference else None,
        results,
        time.monotonic() - begin,
    )


def _reached(
    option: str,
    url: str | None,
    key: str | None,
    model: str | None,
    question: Question,
    until: float,
    transport: httpx.BaseTransport | None,
    reference: Endpoint | None = None,
) -> Endpoint:
    """The server, once it has answered something. Raises UsageError."""
    if not url:
        raise UsageError(
            "Which server? Give its URL, as in http://127.0.0.1:8000/v1, or --release."
        )
    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and parsed.host and not parsed.query
    except (httpx.InvalidURL, ValueError):
        good = False
    if not good:
        raise UsageError(f"{option} {url!r} is no URL of a server, as http://127.0.0.1:8000/v1 is.")
    endpoint = Endpoint(url, key, model, question.timeout, until, transport, reference)
    try:
        answer = endpoint.get(MODELS)
    except httpx.HTTPError as error:
        endpoint.close()
        raise UsageError(
            f"{option} {url} does not answer: {error or type(error).__name__}. Is the server up,"
            " and the port right?"
        ) from error
    if answer.status in (401, 403):
        endpoint.close()
        wanted = "give its key with" if key is None else "it does not take the key of"
        raise UsageError(f"{option} {url} answers HTTP {answer.status}: {wanted} --api-key.")
    if answer.status == 404 and not parsed.path.rstrip("/").endswith("/v1"):
        endpoint.close()
        raise UsageError(
            f"{option} {url} has no /models: the URL has to end in the version, most often /v1."
        )
    try:
        _ = endpoint.model
    except (Broken, httpx.HTTPError) as error:
        endpoint.close()
        raise UsageError(
            f"{option} {url} names no model ({error}): name one with --model."
        ) from error
    return endpoint


def _chosen(groups: Sequence[str]) -> list[Check]:
    unknown = [group for group in groups if group not in suite.GROUPS]
    if unknown:
        raise UsageError(
            f"--group {', '.join(unknown)}: there is no such group. The groups are"
            f" {', '.join(suite.GROUPS)}."
        )
    return suite.checks_of(groups)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
