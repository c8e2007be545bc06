"""`raypd verify`: proof that prefill and decode of a live release are apart, and of what carries KV.

Prompts that no cache has seen are sent through the endpoint; the engines' counters, their logs and
their network adapters are read before and after. What that proves is decided in raypd.live.proof.verdicts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from openai import APIError, APIStatusError, AuthenticationError, OpenAI
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raypd.evidence import Counters, grown, unseen_prompt
from raypd.live.cluster import Cluster
from raypd.live.forward import forward
from raypd.live.proof import fabric, nixl_log, verdicts
from raypd.live.proof.counters import Meter, breaks, meter
from raypd.live.proof.verdicts import Check, Verdict, Window
from raypd.live.served import Served, asks_for_efa, find
from raypd.live.snapshot import SERVE_PORT, component_of
from raypd.report import Output, UsageError

Json = dict[str, Any]
Ask = Callable[[str], int]
Logs = dict[str, dict[str, nixl_log.NixlLog]]  # by role and pod
Traffic = dict[str, dict[str, fabric.Traffic]]
_T = TypeVar("_T")

_ANSWER_TOKENS = 4
_MOST_CHARACTERS = 6000  # of a prompt: enough KV to be seen, and over in a second
_WINDOWS = 4  # of requests, until the counters tell
_READERS = 8
_REQUESTS = 6  # in one window, when there is more than one pair of engines
_COLOURS = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.CANNOT_TELL: "bold yellow",
    Verdict.NOT_APPLICABLE: "dim",
}


@dataclass(frozen=True)
class Verification:
    """All checks of a release; `claim` is the one of them that all else hangs on."""

    served: Served
    claim: Check
    checks: list[Check]

    @property
    def proven(self) -> bool:
        """The claim is proven and nothing contradicts it."""
        failed = any(check.verdict == Verdict.FAIL for check in self.checks)
        return self.claim.verdict == Verdict.PASS and not failed


def run(
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    timeout: int,
    api_key: str | None,
    output: Output,
) -> int:
    """Prints what is proven; 0 when the claim is and nothing failed, else 1.

    `timeout` is what one request may take, in seconds; `api_key` goes with it. Raises UsageError when the cluster cannot be
    reached, when the user may not forward ports there, and when the release does not serve.
    """
    cluster = Cluster(kubeconfig, context)
    served = find(cluster, release, namespace)
    console = Console(stderr=True)
    with console.status("Sending prompts that no cache has seen, reading counters ..."):
        found = verify(cluster, served, release, timeout, api_key)
    if output == "json":
        print(json.dumps(_document(release, found), indent=2))
    else:
        _print(release, found)
    return int(not found.proven)


def verify(
    cluster: Cluster, served: Served, release: str, seconds: float, api_key: str | None = None
) -> Verification:
    """Asks and looks; what `run` prints. Raises UsageError as `run` does."""
    listed = f"/api/v1/namespaces/{served.namespace}/pods"
    selector = f"app.kubernetes.io/instance={release}"

    def pods() -> list[Json]:
        return [p for p in cluster.list(listed, selector) if component_of(p) in served.engines]

    with ExitStack() as stack:
        measuring = stack.enter_context(meter(cluster, served, pods))
        door = served.door["metadata"]["name"]
        http = stack.enter_context(forward(cluster, served.namespace, door, SERVE_PORT))
        ask = asker(served, http, seconds, api_key)
        if not served.disaggregated:
            return _aggregated(served, measuring, ask)
        logs, traffic = _logs(cluster, served), _traffic(cluster, served)
        windows, claim, proven = ask_until_told(served, measuring, ask)
        checks = _checks(
            served,
            windows,
            claim,
            proven,
            (logs, _logs(cluster, served)),
            (traffic, _traffic(cluster, served)),
        )
        return Verification(served, claim, checks)


def asker(served: Served, http: httpx.Client, seconds: float, api_key: str | None = None) -> Ask:
    """A function that sends one chat request and returns its prompt's tokens.

    That raises RuntimeError with the server's words when there is no proper answer, and UsageError
    when the port-forward is refused.
    """
    openai = OpenAI(
        base_url=str(http.base_url.join(f"{served.prefix}/v1")),
        api_key=api_key or "unused",  # the client insists on one
        timeout=seconds,
        max_retries=0,
        http_client=http,
    )

    def ask(prompt: str) -> int:
        try:
            answer = openai.chat.completions.create(
                model=served.model,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=_ANSWER_TOKENS,
                temperature=0,
            )
        except AuthenticationError as error:
            raise UsageError(
                f"The endpoint asks for a key: {error.message} Give --api-key."
            ) from error
        except APIStatusError as error:
            raise RuntimeError(f"HTTP {error.status_code}: {error.message}") from error
        except APIError as error:
            raise RuntimeError(f"no answer: {error.__cause__ or error}") from error
        if not answer.usage:
            raise RuntimeError("the answer does not say how many tokens the prompt has")
        return answer.usage.prompt_tokens

    return ask


def ask_until_told(
    served: Served, meter: Meter, ask: Ask
) -> tuple[list[Window], Check, dict[verdicts.Pair, int]]:
    """Sends windows of requests until the claim is decided and every pair of engines was seen, or
    so often that more would not tell more; returns them, the claim and the pairs."""
    prefill, decode = _names(served, "prefill"), _names(served, "decode")
    alone = len(prefill) == len(decode) == 1
    windows: list[Window] = []
    claims: list[Check] = []
    proven: dict[verdicts.Pair, int] = {}
    while len(windows) < _WINDOWS:
        window = measure(served, meter, ask, prompts(1 if alone else _REQUESTS, served.context))
        windows.append(window)
        claims.append(verdicts.apart(window, prefill, decode))
        if claims[-1].verdict == Verdict.PASS:
            new = (
                {(prefill[0], decode[0]): len(window.prompts)}
                if alone
                else verdicts.pairs_in(window, prefill, decode)
            )
            for pair, count in new.items():
                proven[pair] = proven.get(pair, 0) + count
        told = claims[-1].verdict == Verdict.FAIL or window.error
        if told or len(proven) == len(prefill) * len(decode):
            break
    by_verdict = {check.verdict: check for check in claims}
    order = (Verdict.FAIL, Verdict.PASS, Verdict.CANNOT_TELL)
    return windows, next(by_verdict[v] for v in order if v in by_verdict), proven


def measure(served: Served, meter: Meter, ask: Ask, texts: list[str]) -> Window:
    """Sends the prompts one after the other between two looks at the counters."""
    engines = {role: _names(served, role) for role in served.engines}
    before = meter.look()
    begin = time.monotonic()
    tokens: list[int] = []
    error = ""
    try:
        for text in texts:
            tokens.append(ask(text))
    except RuntimeError as failure:
        error = str(failure)
    seconds = time.monotonic() - begin

    def complete(now: Counters) -> bool:
        growth = grown(before.counters, now)
        if error or not verdicts.counted(tokens, growth, engines):
            return False
        return not meter.exports_kv or any(growth.kv_reads.values())  # NIXL's come on their own

    meter.wait(complete)
    after = meter.look()
    growth = grown(before.counters, after.counters)
    return Window(tuple(tokens), seconds, growth, error, tuple(breaks(before, after)))


def prompts(number: int, context: int) -> list[str]:
    """So many prompts that no cache has seen, which fit into `context` tokens even where a token is
    one character. Their lengths grow so that sums of them tell which prompts are in the sum."""
    room = min(_MOST_CHARACTERS, context // 2)
    tail = [" again" * (2**n - 1) for n in range(number)]
    sentence = "Tell me what prefill and decode do. "
    body = sentence * (max(room - len(unseen_prompt("")) - len(tail[-1]), 0) // len(sentence) or 1)
    return [unseen_prompt(body + end) for end in tail]


def _aggregated(served: Served, meter: Meter, ask: Ask) -> Verification:
    windows: list[Window] = []
    while len(windows) < _WINDOWS:
        windows.append(measure(served, meter, ask, prompts(1, served.context)))
        claim = verdicts.together(windows[-1], _names(served, "engine"))
        if claim.verdict != Verdict.CANNOT_TELL or windows[-1].error:
            break
    why = "one engine computes prompt and answer: no KV is transferred"
    rest = [Check(n, Verdict.NOT_APPLICABLE, why) for n in ("backend", "rate", "efa", "peers")]
    return Verification(served, claim, [verdicts.answered(windows), claim, *rest])


def _checks(
    served: Served,
    windows: list[Window],
    claim: Check,
    proven: dict[verdicts.Pair, int],
    logs: tuple[Logs, Logs],
    traffic: tuple[Traffic, Traffic],
) -> list[Check]:
    prefill, decode = _names(served, "prefill"), _names(served, "decode")
    earlier, later = logs
    old = [
        failure for found in earlier.values() for log in found.values() for failure in log.failures
    ]
    known = {failure.line for failure in old}
    everything = {pod: log for found in later.values() for pod, log in found.items()}
    unread = [f"{pod} ({log.why})" for pod, log in everything.items() if log.why]
    fresh = [f for log in everything.values() for f in log.failures if f.line not in known]
    # A failure can only be fresh where the log was known before.
    unread += [f"{p} ({g.why})" for found in earlier.values() for p, g in found.items() if g.why]
    whole = not unread and all(log.engines for log in everything.values())
    sound = [window for window in windows if not window.breaks]
    return [
        verdicts.answered(windows),
        claim,
        verdicts.transfers(windows, decode, [] if unread else fresh),
        verdicts.pairs(proven, prefill, decode),
        verdicts.backends(served.backends, later),
        verdicts.rate(sound, decode, served.floor),
        verdicts.efa(
            any(map(asks_for_efa, served.pods)),
            *traffic,
            verdicts.kv_bytes(sound, decode)[0],
        ),
        verdicts.peers(
            [] if unread else fresh,
            old,
            {engine for log in everything.values() for engine in log.engines} if whole else (),
            [pod["status"].get("podIP") for pod in served.pods],
            list(dict.fromkeys(unread)),
        ),
    ]


def _logs(cluster: Cluster, served: Served) -> Logs:
    return _by_engine(served, lambda pod: nixl_log.read(cluster, served.namespace, pod))


def _traffic(cluster: Cluster, served: Served) -> Traffic:
    """Counters of the adapters, read only where there is something to compare."""
    if not any(map(asks_for_efa, served.pods)):
        return {}
    return _by_engine(served, lambda pod: fabric.read(cluster, served.namespace, pod))


def _by_engine(served: Served, read: Callable[[Json], _T]) -> dict[str, dict[str, _T]]:
    with ThreadPoolExecutor(_READERS) as readers:
        return {
            role: dict(zip(_names(served, role), readers.map(read, pods), strict=True))
            for role, pods in served.engines.items()
        }


def _names(served: Served, role: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in served.engines[role]]


def _document(release: str, found: Verification) -> dict[str, Any]:
    return {
        "release": release,
        "namespace": found.served.namespace,
        "model": found.served.model,
        "disaggregated": found.served.disaggregated,
        "proven": found.proven,
        "checks": [asdict(check) for check in found.checks],
    }


def _print(release: str, found: Verification) -> None:
    console = Console(highlight=False)
    engines = " and ".join(f"{len(pods)} {role}" for role, pods in found.served.engines.items())
    where = f"{found.served.namespace}/{release}"
    console.print(f"{found.served.model} of {where}: {engines}", soft_wrap=True, markup=False)
    table = Table("check", "verdict", "seen", show_edge=False)
    for check in found.checks:
        colour = _COLOURS[check.verdict]
        table.add_row(check.name, f"[{colour}]{check.verdict}[/{colour}]", escape(check.words))
    console.print(table)
    console.print("Proven." if found.proven else "Not proven.", style="bold")
