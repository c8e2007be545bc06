"""All checks by group, and a run of them, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import httpx

from raypd.conformance.checks import (
    auth,
    cancellation,
    chat,
    concurrency,
    errors,
    finish,
    limits,
    logprobs,
    long_inputs,
    models,
    reference,
    sampling,
    streaming,
    structured,
    tools,
    unicode,
    usage,
)
from raypd.conformance.endpoint import Endpoint
from raypd.conformance.known import gap_of
from raypd.conformance.outcome import (
    Broken,
    NotApplicable,
    Outcome,
    Result,
    Seen,
    TimeOver,
    Verdict,
    Wrong,
)


@dataclass(frozen=True)
class Check:
    """One thing that is judged: `title` is the sentence that holds of a server that is right."""

    group: str
    title: str
    function: Callable[[Endpoint], Iterator[Outcome]]

    @property
    def name(self) -> str:
        """The function's name as people read it: "unknown-model"."""
        return self.function.__name__.replace("_", "-")

    @property
    def id(self) -> str:
        """The name that no other check has: "errors/unknown-model"."""
        return f"{self.group}/{self.name}"


_GROUPS = (
    *(models, chat, streaming, finish, usage, sampling, logprobs, structured, tools, errors),
    *(limits, auth, cancellation, concurrency, long_inputs, unicode, reference),
)
CHECKS = [
    Check(module.__name__.rpartition(".")[2].replace("_", "-"), title, function)
    for module in _GROUPS
    for title, function in module.CHECKS
]
GROUPS = list(dict.fromkeys(check.group for check in CHECKS))


def checks_of(groups: Collection[str]) -> list[Check]:
    """The checks of these groups, all where none is named."""
    return [check for check in CHECKS if not groups or check.group in groups]


def run(endpoint: Endpoint, checks: Iterable[Check]) -> Iterator[Result]:
    """Makes the checks and yields how each ended."""
    for check in checks:
        yield _made(check, endpoint)


def _made(check: Check, endpoint: Endpoint) -> Result:
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    verdict, words = Verdict.PASS, []
    try:
        endpoint.check_time()
        for outcome in check.function(endpoint):
            outcomes.append(outcome)  # kept where the next one is raised
    except TimeOver:
        verdict, words = Verdict.NOT_RUN, ["the time limit was over"]
    except NotApplicable as reason:
        verdict, words = Verdict.NOT_APPLICABLE, [str(reason)]
    except Broken as broken:
        outcomes.append(broken.wrong)
    except httpx.HTTPError as error:
        outcomes.append(Wrong(f"no whole answer: {type(error).__name__}: {error}"))
    if verdict != Verdict.NOT_RUN and time.monotonic() > endpoint.until:
        # What was cut short says nothing about the server.
        verdict, words, outcomes = Verdict.NOT_RUN, ["the time limit was over"], []
    wrongs = [outcome for outcome in outcomes if isinstance(outcome, Wrong)]
    gaps = [gap_of(check.id, wrong) for wrong in wrongs]
    if wrongs:
        verdict = Verdict.KNOWN_GAP if all(gaps) else Verdict.FAIL
        words = list(dict.fromkeys(wrong.words for wrong in wrongs))
    elif verdict == Verdict.PASS:
        words = [outcome.words for outcome in outcomes if isinstance(outcome, Seen)]
    return Result(
        check.group,
        check.name,
        check.title,
        verdict,
        words,
        wrongs,
        list({gap["gap"]: gap for gap in gaps if gap}.values()),
        time.monotonic() - begin,
    )
