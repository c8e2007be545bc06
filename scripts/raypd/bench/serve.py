"""What `raypd bench serve` does: load, act, report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from raypd.bench.load import Target, runtime_versions
from raypd.bench.report import (
    Column,
    Files,
    Presentation,
    Results,
    command_line,
    number,
    publish,
    this_machine,
)
from raypd.bench.rounds import (
    FIRST_TOKENS,
    STRAY_TOKENS,
    STREAM_PROMPT,
    Endpoint,
    Plan,
    load_question,
    measure,
)
from raypd.local import chat, state, verb
from raypd.local.state import State
from raypd.local.web import client
from raypd.render import ValueArguments
from raypd.report import Output, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERR = Console(stderr=True, soft_wrap=True)
_PROMPTS = (1024, 4096, 8192)
_LONGEST = 16384  # of an endpoint that does not say


@dataclass(frozen=True)
class Asked:
    """The options, as they were written."""

    prompts: str | None
    mix: str | None
    streams: int
    loads: list[str]
    goodput: list[str]
    repeats: int
    seconds: float
    limit: float
    model: str
    tokenizer: str
    api_key: str | None = field(default=None, repr=False)

    def plan(self, longest: int) -> Plan:
        """What they mean where prompt and answer may have `longest` tokens together; 0 is not known.

        Raises UsageError for what cannot be read.
        """
        longest = longest or _LONGEST
        fitting = [n for n in _PROMPTS if n + FIRST_TOKENS + STRAY_TOKENS <= longest] or [
            longest // 4,
            longest // 2,
        ]
        prompts = fitting if self.prompts is None else _lengths(self.prompts)
        length, rates = _mix(f"{min(4096, longest // 2)}@1,2,4" if self.mix is None else self.mix)
        for target in self.goodput:
            if not re.fullmatch(r"(ttft|tpot|e2el):\d+(\.\d+)?", target):
                raise UsageError(
                    f"--goodput {target}: write ttft, tpot or e2el and milliseconds, as in ttft:500."
                )
        return Plan(
            prompts=prompts,
            mix=length,
            rates=rates,
            streams=self.streams,
            loads=[load_question(text) for text in self.loads],
            goodput=tuple(self.goodput),
            repeats=self.repeats,
            seconds=self.seconds,
            limit=self.limit,
        )


def run(names: Sequence[str], asked: Asked, files: Files, output: Output) -> int:
    """Measures and reports; 0 when every question has an answer."""
    files.check()
    endpoints = [endpoint(name, asked.model, asked.tokenizer, asked.api_key) for name in names]
    return _measured(endpoints, asked, files, output)


def run_local(
    chart: Path | None,
    arguments: ValueArguments,
    asked: Asked,
    wait: int,
    files: Files,
    output: Output,
) -> int:
    """Brings the render up on this machine with prefill and decode apart, and aggregated with as many
    engines; measures both in turn; ends both."""
    files.check()
    asked.plan(0)  # what cannot be read is said before engines start
    stages = verb.Stages()
    runs: list[State] = []
    with verb.interruptible():
        try:
            runs.append(verb.start(chart, arguments, "bench-pd", wait, stages))
            engines = len(runs[0].groups) - 1  # all nodes but the head
            same = [*arguments.set_, "topology.mode=aggregated", f"engine.replicas={engines}"]
            aggregated = replace(arguments, set_=same)
            runs.append(verb.start(chart, aggregated, "bench-aggregated", wait, stages))
            endpoints = [endpoint(run.name, "", asked.tokenizer) for run in runs]
            return _measured(endpoints, asked, files, output)
        finally:
            for run in runs:
                verb.end(run)


def _measured(endpoints: Sequence[Endpoint], asked: Asked, files: Files, output: Output) -> int:
    plan = asked.plan(min((e.longest for e in endpoints if e.longest), default=0))
    _refuse(plan, endpoints)
    results = Results(
        command=command_line(), versions=runtime_versions(), hardware=this_machine(), rows=[]
    )
    with _ERR.status("Starting the load generator") as line:

        def save(rows: list[dict[str, Any]], notes: list[str]) -> None:
            results.rows, results.notes = rows, notes
            files.keep(results)

        measure(plan, endpoints, lambda text: line.update(text), save)
    return publish(results, PRESENTATION, files, output)


def endpoint(text: str, model: str, tokenizer: str, api_key: str | None = None) -> Endpoint:
    """NAME=URL, or the name of a local run. Raises UsageError when it is neither."""
    name, is_url, url = text.partition("=")
    if not is_url:
        run = state.need(name)
        base = run.endpoint.removesuffix("/v1")
        target = Target(name, base, run.model_id, tokenizer or run.model_source, chat.api_key(run))
        return Endpoint(target, run, run.max_model_len)
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{text}: write NAME=http://HOST:PORT, or the name of a local run.")
    base = url.rstrip("/").removesuffix("/v1")
    model = model or _first_model(base, api_key)
    return Endpoint(Target(name, base, model, tokenizer or model, api_key))


def _first_model(base: str, api_key: str | None) -> str:
    try:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        answer = client().get(f"{base}/v1/models", headers=headers)
        answer.raise_for_status()
        return answer.json()["data"][0]["id"]
    except (httpx.HTTPError, ValueError, KeyError, IndexError) as error:
        raise UsageError(
            f"{base}/v1/models does not say which models are served ({error}). Is the address right?"
            " Else name the model with --model."
        ) from error


def _refuse(plan: Plan, endpoints: Sequence[Endpoint]) -> None:
    """Before anything is measured, what an endpoint cannot take."""
    names = [e.target.name for e in endpoints]
    if len(set(names)) < len(names):
        raise UsageError(f"{', '.join(names)}: give each endpoint a name of its own.")
    for e in endpoints:
        for q in plan.questions():
            most = q.prompt_tokens + q.answer_tokens + STRAY_TOKENS
            if e.longest and most > e.longest:
                raise UsageError(
                    f"{q}: that is {most:,} tokens with the answer and the {STRAY_TOKENS} by which random"
                    f" prompts may be longer, and {e.target.name} takes {e.longest:,} (model.maxModelLen). Ask for less."
                )


def _lengths(text: str) -> list[int]:
    if not re.fullmatch(r"(\d+(,\d+)*)?", text):
        raise UsageError(f"--prompts {text}: write lengths in tokens, as in 1024,4096.")
    return [int(word) for word in text.split(",") if word]


def _mix(text: str) -> tuple[int, list[float]]:
    if not text:
        return 0, []
    found = re.fullmatch(r"(\d+)@(\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)*)", text)
    if not found:
        raise UsageError(
            f"--mix {text}: write the tokens of a prompt and the prompts a second, as in 4096@1,2,4."
        )
    return int(found[1]), [float(rate) for rate in found[2].split(",")]


def draw(results: Results) -> dict[str, Figure]:
    """Time to first token by length of prompt; pauses of streams by the rate of long prompts; and
    throughput of each load."""
    from matplotlib.figure import Figure

    pictures = {}
    names = list(dict.fromkeys(row["endpoint"] for row in results.rows))
    new = [
        row
        for row in results.rows
        if row["question"] == "new prompt" and row["ttft_p50_ms"] is not None
    ]
    if new:
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for name in names:
            mine = [row for row in new if row["endpoint"] == name]
            axes.plot(
                [row["prompt_tokens"] for row in mine],
                [row["ttft_p50_ms"] for row in mine],
                marker="o",
                label=name,
            )
        axes.set(
            xlabel="tokens of a new prompt",
            ylabel="time to first token, median (ms)",
            ylim=(0, None),
        )
        axes.legend()
        pictures["new-prompts"] = figure
    mix = [
        row for row in results.rows if row["question"] == "mix" and row["itl_p50_ms"] is not None
    ]
    if mix:
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for at, name in enumerate(names):
            mine = [row for row in mix if row["endpoint"] == name]
            for key, style in (("itl_p50_ms", ":"), ("itl_p99_ms", "-")):
                axes.plot(
                    [row["rate"] for row in mine],
                    [row[key] for row in mine],
                    style,
                    color=f"C{at}",
                    marker="o",
                    label=f"{name}, {'median' if key == 'itl_p50_ms' else 'p99'}",
                )
        tokens = max(row["prompt_tokens"] for row in mix)
        axes.set(
            xlabel=f"new prompts of {tokens:,} tokens a second",
            ylabel="pause between tokens of running streams (ms)",
            ylim=(0, None),
        )
        axes.legend()
        pictures["streams"] = figure
    loads = [row for row in results.rows if row["question"] == "load" and row["requests"]]
    if loads:
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        labels = list(dict.fromkeys(row["what"] for row in loads))
        for at, name in enumerate(names):
            by = {
                row["what"]: row["output_tokens_per_s"] for row in loads if row["endpoint"] == name
            }
            places = [n + 0.8 * (at + 0.5) / len(names) - 0.4 for n in range(len(labels))]
            heights = [by.get(label) or 0 for label in labels]
            axes.barh(places, heights, height=0.8 / len(names), label=name)
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel="answer tokens a second")
        axes.legend()
        pictures["throughput"] = figure
    return pictures


_MS = number(3)
PRESENTATION = Presentation(
    title=f"What clients see (streams have prompts of {STREAM_PROMPT} tokens)",
    columns=[
        Column("what", "asked"),
        Column("endpoint", "endpoint"),
        Column("requests", "requests", right=True),
        Column("failed", "failed", right=True),
        Column("ttft_p50_ms", "TTFT p50 ms", _MS, right=True),
        Column("ttft_p99_ms", "p99", _MS, right=True),
        Column("tpot_p50_ms", "TPOT p50 ms", _MS, right=True),
        Column("itl_p50_ms", "ITL p50 ms", _MS, right=True),
        Column("itl_p99_ms", "p99", _MS, right=True),
        Column("requests_per_s", "requests/s", _MS, right=True),
        Column("output_tokens_per_s", "tokens/s", _MS, right=True),
        Column("good_requests_per_s", "good/s", _MS, right=True),
        Column("kv_gb_per_s", "KV GB/s", _MS, right=True),
        Column("error", "error"),
    ],
    draw=draw,
)
