"""What is asked of whom, in which order, and what becomes of the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raypd.bench import rounds
from raypd.bench.load import LoadFailed, Measured, Part, Target
from raypd.bench.rounds import STRAY_TOKENS, Endpoint, Plan, load_question, measure
from raypd.report import UsageError

PLAN = Plan(
    prompts=[1024],
    mix=4096,
    rates=[2.0],
    streams=4,
    loads=[load_question("128:32@8")],
    goodput=("ttft:500",),
    repeats=2,
    seconds=10,
    limit=1000,
)
ENDPOINTS = [Endpoint(Target(name, f"http://{name}", "m", "/m"), longest=8192) for name in "ab"]


class FakeLoad:
    """Answers at once: every request after 0.1 s, a token each 0.02 s; `asked` has what it was asked."""

    asked: list[tuple[str, list[Part]]]

    def __init__(self, log):
        FakeLoad.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, target, parts, seconds):
        self.asked.append((target.name, list(parts)))
        return [self.answer(part) for part in parts]

    def answer(self, part: Part) -> Measured:
        return Measured(
            seconds=2.0,
            starts=[part.after] * part.prompts,
            first=[0.1] * part.prompts,
            gaps=[[0.02] * (part.answer_tokens - 1)] * part.prompts,
            output_tokens=part.prompts * part.answer_tokens,
            failed=0,
            error="",
            good=part.prompts / 2,
        )


@pytest.fixture(autouse=True)
def _fake_load(monkeypatch):
    monkeypatch.setattr(rounds, "Load", FakeLoad)


def _measured(plan: Plan = PLAN) -> tuple[list[dict], list[str]]:
    saved: list[tuple[list[dict], list[str]]] = []
    measure(plan, ENDPOINTS, lambda text: None, lambda rows, notes: saved.append((rows, notes)))
    return saved[-1]


def _row(rows: list[dict], kind: str, endpoint: str = "a", rate: float = 0.0) -> dict:
    (found,) = [
        r for r in rows if (r["question"], r["endpoint"], r["rate"]) == (kind, endpoint, rate)
    ]
    return found


def test_every_question_has_a_row_for_every_endpoint():
    rows, notes = _measured()
    assert len(rows) == 2 * len(list(PLAN.questions()))
    assert len({row["what"] for row in rows}) == 4
    assert notes == []


def test_endpoints_take_turns_and_get_the_same_load():
    _measured()
    names = [name for name, _ in FakeLoad.asked]
    first_of_round = [names[0], names[len(names) // 3]]
    assert first_of_round == ["a", "b"]
    loads = [parts for _, parts in FakeLoad.asked if parts[0].concurrency == 8]
    for one, other in zip(loads[::2], loads[1::2], strict=True):
        assert one == other
    assert loads[0] != loads[2]  # but every round has prompts of its own


def test_no_prompt_is_asked_twice():
    _measured()
    seeds = [parts[0].seed for name, parts in FakeLoad.asked if name == "a"]
    assert len(seeds) == len(set(seeds))


def test_the_first_round_warms_up_and_is_not_counted():
    rows, _ = _measured()
    asked = sum(name == "a" and parts[0].concurrency == 1 for name, parts in FakeLoad.asked)
    assert asked == 3 * _row(rows, "new prompt")["requests"] / 2
    assert sum(len(parts) == 2 for _, parts in FakeLoad.asked) == PLAN.repeats * len(ENDPOINTS)


def test_streams_last_as_long_as_prompts_arrive():
    _measured()
    streams, prompts = next(parts for _, parts in FakeLoad.asked if len(parts) == 2)
    assert streams.answer_tokens * 0.02 == pytest.approx(PLAN.seconds + prompts.after, rel=0.05)
    assert prompts.prompts == PLAN.seconds * 2
    assert prompts.rate == 2


def test_streams_that_were_over_before_prompts_came_are_asked_for_again(monkeypatch):
    class Faster(FakeLoad):
        def measure(self, target, parts, seconds):
            answers = super().measure(target, parts, seconds)
            if len(parts) == 1:
                return answers
            return [replace(a, gaps=[[0.001] * len(gaps) for gaps in a.gaps]) for a in answers]

    monkeypatch.setattr(rounds, "Load", Faster)
    rows, _ = _measured()
    mixes = [parts for name, parts in FakeLoad.asked if len(parts) == 2 and name == "a"]
    first, again = mixes[:2]
    assert again[0].answer_tokens > 5 * first[0].answer_tokens
    assert {part.seed for part in first}.isdisjoint(part.seed for part in again)
    mix = _row(rows, "mix", rate=2.0)
    assert mix["requests"] == 2 * (4 + 20)
    assert mix["itl_p50_ms"] == 1


def test_streams_are_never_longer_than_the_model_takes():
    short = [replace(endpoint, longest=300) for endpoint in ENDPOINTS]
    measure(PLAN, short, lambda text: None, lambda rows, notes: None)
    streams = next(parts for _, parts in FakeLoad.asked if len(parts) == 2)[0]
    assert streams.prompt_tokens + streams.answer_tokens == 300 - STRAY_TOKENS


def test_of_a_mix_the_prompts_first_token_and_the_streams_pauses_meanwhile():
    rows, _ = _measured()
    mix = _row(rows, "mix", rate=2.0)
    assert mix["requests"] == 2 * (4 + 20)
    assert (mix["ttft_p50_ms"], mix["itl_p99_ms"]) == (100, 20)
    assert mix["output_tokens_per_s"] is None


def test_throughput_and_goodput_of_a_load():
    load = _row(_measured()[0], "load")
    assert load["requests"] == 2 * 24
    assert load["requests_per_s"] == 12
    assert load["output_tokens_per_s"] == 12 * 32
    assert load["good_requests_per_s"] == 6


def test_tokens_that_come_several_at_a_time_are_told(monkeypatch):
    def gathered(self, part):
        answer = FakeLoad.whole(self, part)
        return replace(answer, gaps=[[0.0, 0.0, 0.0, 0.05] for _ in answer.gaps])

    monkeypatch.setattr(FakeLoad, "whole", FakeLoad.answer, raising=False)
    monkeypatch.setattr(FakeLoad, "answer", gathered)
    rows, notes = _measured()
    assert [note.split(":")[0] for note in notes] == ["a", "b"]
    load = _row(rows, "load")
    assert (load["itl_p50_ms"], load["tpot_p50_ms"]) == (0, 12.5)


def test_without_targets_there_is_no_goodput():
    load = _row(_measured(replace(PLAN, goodput=()))[0], "load")
    assert load["good_requests_per_s"] is None


def test_what_the_generator_gives_up_stands_in_its_row_alone(monkeypatch):
    def measure(self, target, parts, seconds):
        if target.name == "b" and len(parts) == 2:
            raise LoadFailed("connection refused")
        return [self.answer(part) for part in parts]

    monkeypatch.setattr(FakeLoad, "measure", measure)
    rows, _ = _measured()
    assert [r["what"] for r in rows if r["error"]] == [_row(rows, "mix", "b", 2.0)["what"]]


def test_after_the_limit_nothing_more_is_asked_and_what_has_no_answer_is_said(monkeypatch):
    clock = iter(range(0, 10**6, 100))
    monkeypatch.setattr(rounds.time, "monotonic", lambda: next(clock))
    rows, notes = _measured(replace(PLAN, limit=1250))
    assert len(FakeLoad.asked) < 30
    assert notes == ["Stopped after 1250 s, in round 1 of 2."]
    assert len(rows) == 2 * len(list(PLAN.questions()))
    assert _row(rows, "new prompt")["error"] is None
    assert _row(rows, "load")["error"] == "not reached within 1250 s"


@pytest.mark.parametrize("text", ["128:32", "128:32@0", "a:b@c", "128:32@8x"])
def test_no_load(text):
    with pytest.raises(UsageError, match="1024:128@16"):
        load_question(text)
