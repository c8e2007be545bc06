"""The measurement behind `raypd bench serve`: what clients of one or several endpoints see, in one run.

Three questions, each asked of every endpoint in turn, again and again, so that whatever else the machine
does falls on all of them alike:

- "new prompt": one request alone, whose prompt no cache knows. Time to first token.
- "mix": streams that run while long prompts arrive. The pauses between the tokens of the streams.
- "load": requests of one length, so many at a time. Throughput, and requests that keep the targets.
"""

from __future__ import annotations

import math
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypd.bench.load import Load, LoadFailed, Measured, Part, Target
from raypd.evidence import Counters, between
from raypd.local import evidence
from raypd.local.state import State
from raypd.report import UsageError

FIRST_TOKENS = 8  # answer of a prompt of which only the first token is asked for
STREAM_PROMPT = 128
# vLLM makes a prompt's text from random tokens, and the text encoded again has one or two more in a third of
# 2,640 prompts (128 to 1,900 tokens, a vocabulary of 404).
STRAY_TOKENS = 8
_PROMPTS_A_ROUND = 3  # new prompts of each length, one after the other
_LEAD_SECONDS = 1.0  # of the streams before the first long prompt, a quarter of their time at most
_TRIES = 2  # of a mix
_TELEMETRY_SECONDS = 0.3  # NIXL hands its counters to its exporter ten times a second


@dataclass(frozen=True)
class Question:
    """One cell of the table for each endpoint. `rate` is of long prompts a second, `streams` the
    number of running streams or of requests at a time."""

    kind: str
    prompt_tokens: int
    answer_tokens: int = FIRST_TOKENS
    streams: int = 1
    rate: float = 0.0

    def __str__(self) -> str:
        if self.kind == "new prompt":
            return f"new prompt of {self.prompt_tokens:,} tokens"
        if self.kind == "mix":
            arriving = f"{self.rate:g} prompts/s of {self.prompt_tokens:,} tokens"
            return f"{self.streams} streams, {arriving if self.rate else 'no other prompts'}"
        return f"{self.prompt_tokens:,} in, {self.answer_tokens:,} out, {self.streams} at a time"


@dataclass(frozen=True)
class Plan:
    """What is asked. `prompts` are lengths of new prompts; `mix` is the length of prompts that arrive
    at each of `rates` among `streams`; `loads` are questions of that kind."""

    prompts: Sequence[int]
    mix: int
    rates: Sequence[float]
    streams: int
    loads: Sequence[Question]
    goodput: tuple[str, ...]
    repeats: int
    seconds: float  # of a mix
    limit: float  # of everything; what is not measured by then is left out

    def round(self, number: int) -> Iterator[Question]:
        """The questions of a round; the first warms up, for which streams alone are enough."""
        return (q for q in self.questions() if number or not q.rate)

    def questions(self) -> Iterator[Question]:
        for tokens in self.prompts:
            yield Question("new prompt", tokens)
        # 0 first: it tells how long the streams' answers have to be for the others.
        for rate in [0.0, *self.rates] if self.rates else []:
            yield Question("mix", self.mix, streams=self.streams, rate=rate)
        yield from self.loads


def load_question(text: str) -> Question:
    """ "1024:128@16" is 1,024 tokens in, 128 out, 16 requests at a time."""
    found = re.fullmatch(r"(\d+):(\d+)@(\d+)", text)
    numbers = [int(n) for n in found.groups()] if found else []
    if not numbers or 0 in numbers:
        raise UsageError(
            f"--load {text}: write PROMPT:ANSWER@REQUESTS, the tokens of each and how many at a time, as in 1024:128@16."
        )
    return Question("load", *numbers)


@dataclass(frozen=True)
class Endpoint:
    """A target, the local run behind it if it is one, and the longest prompt and answer together."""

    target: Target
    run: State | None = None
    longest: int = 0

    def counters(self) -> Counters | None:
        """NIXL's and the engines' counters, where they can be read."""
        if self.run is None or not self.run.disaggregated:
            return None
        time.sleep(_TELEMETRY_SECONDS)
        return evidence.look(self.run)


@dataclass
class Cell:
    """All that was measured of a question at an endpoint; seconds."""

    first: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)  # mean pause of each whole answer
    seconds: float = 0.0
    requests: int = 0
    output_tokens: int = 0
    good: float = 0.0
    failed: int = 0
    kv_bytes: int = 0
    kv_seconds: float = 0.0
    error: str = ""

    def add(self, measured: Iterable[Measured]) -> None:
        for part in measured:
            self.requests += len(part.starts)
            self.failed += part.failed
            self.error = self.error or part.error

    def row(self, question: Question, endpoint: str, targets: bool) -> dict[str, Any]:
        busy = self.seconds if question.kind == "load" else 0.0
        return {
            "what": str(question),
            "question": question.kind,
            "prompt_tokens": question.prompt_tokens,
            "answer_tokens": question.answer_tokens,
            "streams": question.streams,
            "rate": question.rate,
            "endpoint": endpoint,
            "requests": self.requests,
            "failed": self.failed,
            "ttft_p50_ms": _ms(self.first, 50),
            "ttft_p99_ms": _ms(self.first, 99),
            "tpot_p50_ms": _ms(self.paces, 50),
            "itl_p50_ms": _ms(self.gaps, 50),
            "itl_p99_ms": _ms(self.gaps, 99),
            "requests_per_s": self.requests / busy if busy else None,
            "output_tokens_per_s": self.output_tokens / busy if busy else None,
            "good_requests_per_s": self.good / busy if busy and targets else None,
            "kv_bytes": self.kv_bytes or None,
            "kv_gb_per_s": self.kv_bytes / self.kv_seconds / 1e9 if self.kv_seconds else None,
            "error": self.error or None,
        }


def measure(
    plan: Plan,
    endpoints: Sequence[Endpoint],
    show: Callable[[str], None],
    save: Callable[[list[dict[str, Any]], list[str]], None],
) -> None:
    """Asks everything; `save` gets all rows, and notes, again after each measurement.

    The first round is not counted: kernels are compiled and connections made in it.
    """
    begin = time.monotonic()
    cells = {(q, e.target.name): Cell() for q in plan.questions() for e in endpoints}
    gaps: dict[str, float] = {}  # of streams alone, by endpoint
    seeds = random.Random()
    notes: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="raypd-bench-") as folder,
        Load(Path(folder, "log")) as load,
    ):
        for number in range(plan.repeats + 1):
            for question in plan.round(number):
                seed = seeds.randrange(2**31)
                for endpoint in _turned(endpoints, number):
                    left = plan.limit - (time.monotonic() - begin)
                    if left <= 0:
                        _stop(cells, notes, plan, number)
                        save(_rows(cells, plan), notes)
                        return
                    show(f"{endpoint.target.name}: {question} (round {number} of {plan.repeats})")
                    cell = cells[question, endpoint.target.name] if number else Cell()
                    for n in range(_PROMPTS_A_ROUND if question.kind == "new prompt" else 1):
                        wait = left + 10
                        _ask(load, plan, question, endpoint, seed + n, cell, gaps, wait)
                    if number == 0 and cell.error:  # a warm-up that fails is told, not hidden
                        cells[question, endpoint.target.name].error = cell.error
                    save(_rows(cells, plan), notes)
    for endpoint in endpoints:
        name = endpoint.target.name
        gaps_of = [gap for (_, of), cell in cells.items() if of == name for gap in cell.gaps]
        if gaps_of and sum(gap < _AT_ONCE for gap in gaps_of) > len(gaps_of) / 5:
            notes.append(f"{name}: {_GATHERED}")
    save(_rows(cells, plan), notes)


_AT_ONCE = 0.0005
_GATHERED = (
    "tokens arrive several at a time, so that ITL says how they are gathered and TPOT how fast they are"
    " made. Ray Serve LLM gathers for 50 ms unless RAYLLM_MODEL_RESPONSE_BATCH_TIMEOUT_MS says otherwise"
    " (model.env)."
)


def _stop(
    cells: dict[tuple[Question, str], Cell], notes: list[str], plan: Plan, number: int
) -> None:
    """Says that time is up, in a round, and which questions have no answer for it."""
    when = f"in round {number} of {plan.repeats}" if number else "while it warmed up"
    notes.append(f"Stopped after {plan.limit:.0f} s, {when}.")
    for cell in cells.values():
        if not cell.requests and not cell.error:
            cell.error = f"not reached within {plan.limit:.0f} s"


def _turned(endpoints: Sequence[Endpoint], number: int) -> list[Endpoint]:
    """Who is first changes from round to round."""
    at = number % len(endpoints)
    return [*endpoints[at:], *endpoints[:at]]


def _ask(
    load: Load,
    plan: Plan,
    question: Question,
    endpoint: Endpoint,
    seed: int,
    cell: Cell,
    gaps: dict[str, float],
    seconds: float,
) -> None:
    name = endpoint.target.name
    for more in range(_TRIES):
        # Another seed each time: what was asked before is in a cache.
        parts = _parts(plan, question, seed + 2 * more, gaps.get(name), endpoint.longest)
        before = endpoint.counters()
        try:
            measured = load.measure(endpoint.target, parts, seconds)
        except LoadFailed as failed:
            cell.error = str(failed)
            return
        after = endpoint.counters()
        if not question.rate or _among(*measured) or not (pauses := _all(measured[0].gaps)):
            break
        # The streams were over before a prompt came: they are faster than they were alone.
        gaps[name] = statistics.fmean(pauses)
    if before is not None and after is not None:
        moved = between(before, after)
        cell.kv_bytes += moved.kv_bytes
        cell.kv_seconds += moved.kv_seconds
    cell.add(measured)
    if question.rate:
        streams, prompts = measured
        cell.first += prompts.first
        cell.gaps += _among(streams, prompts)
        return
    (alone,) = measured
    cell.first += alone.first
    cell.gaps += _all(alone.gaps)
    cell.paces += [statistics.fmean(answer) for answer in alone.gaps if answer]
    cell.seconds += alone.seconds
    cell.output_tokens += alone.output_tokens
    cell.good += alone.good
    if question.kind == "mix" and cell.gaps:
        gaps[name] = statistics.fmean(cell.gaps)


def _all(gaps: Iterable[list[float]]) -> list[float]:
    return [gap for answer in gaps for gap in answer]


def _among(streams: Measured, prompts: Measured) -> list[float]:
    """The pauses of streams while prompts were answered."""
    if not prompts.starts:
        return []
    ends = [start + first for start, first in zip(prompts.starts, prompts.first, strict=True)]
    return streams.gaps_between(min(prompts.starts), max(ends))


def _parts(
    plan: Plan, question: Question, seed: int, gap: float | None, longest: int
) -> list[Part]:
    if question.kind == "new prompt":
        return [Part(1, question.prompt_tokens, question.answer_tokens, seed, concurrency=1)]
    if question.kind == "load":
        return [
            Part(
                3 * question.streams,
                question.prompt_tokens,
                question.answer_tokens,
                seed,
                concurrency=question.streams,
                goodput=plan.goodput,
            )
        ]
    most = (longest or 4096) - STREAM_PROMPT - STRAY_TOKENS
    if not question.rate:
        tokens = min(most, math.ceil(plan.seconds / gap) if gap else FIRST_TOKENS * 8)
        return [Part(question.streams, STREAM_PROMPT, tokens, seed)]
    # As long as the prompts arrive, by the pace of streams alone: among prompts they take longer.
    pace = gap or 0.02
    tokens = min(most, math.ceil((plan.seconds + _LEAD_SECONDS) / pace))
    return [
        Part(question.streams, STREAM_PROMPT, tokens, seed),
        Part(
            math.ceil(question.rate * plan.seconds),
            question.prompt_tokens,
            question.answer_tokens,
            seed + 1,
            rate=question.rate,
            after=min(_LEAD_SECONDS, tokens * pace / 4),
        ),
    ]


def _rows(cells: dict[tuple[Question, str], Cell], plan: Plan) -> list[dict[str, Any]]:
    return [
        cell.row(question, endpoint, bool(plan.goodput))
        for (question, endpoint), cell in cells.items()
        if cell.requests or cell.error
    ]


def _ms(seconds: Sequence[float], percent: int) -> float | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return round(1000 * (ordered[low] + (ordered[high] - ordered[low]) * (at - low)), 2)
