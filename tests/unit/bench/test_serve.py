"""`raypd bench serve`: the call, and what is drawn of the results."""

from __future__ import annotations

import httpx
import pytest

from raypd.bench import serve
from raypd.bench.report import Results, page
from raypd.bench.rounds import Cell, Question
from raypd.bench.serve import PRESENTATION, Asked, endpoint
from raypd.local import state
from raypd.report import UsageError


def _asked(**changes) -> Asked:
    defaults = {
        "prompts": "1024,4096",
        "mix": "4096@1,2.5",
        "streams": 8,
        "loads": ["128:128@8"],
        "goodput": ["ttft:500"],
        "repeats": 3,
        "seconds": 10,
        "limit": 600,
        "model": "",
        "tokenizer": "",
    }
    return Asked(**{**defaults, **changes})


def test_what_the_options_mean():
    assert [str(question) for question in _asked().plan(0).questions()] == [
        "new prompt of 1,024 tokens",
        "new prompt of 4,096 tokens",
        "8 streams, no other prompts",
        "8 streams, 1 prompts/s of 4,096 tokens",
        "8 streams, 2.5 prompts/s of 4,096 tokens",
        "128 in, 128 out, 8 at a time",
    ]


def test_each_question_can_be_left_out():
    plan = _asked(prompts="", mix="", loads=["1:1@1"]).plan(0)
    assert [question.kind for question in plan.questions()] == ["load"]


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        ("--prompts", {"prompts": "1k"}),
        ("--mix", {"mix": "4096"}),
        ("--mix", {"mix": "4096@fast"}),
        ("--load", {"loads": ["128"]}),
        ("--goodput", {"goodput": ["itl:5"]}),
    ],
)
def test_what_cannot_be_read_is_named(option, changes):
    with pytest.raises(UsageError, match=option):
        _asked(**changes).plan(0)


def test_a_url_is_asked_for_its_model(monkeypatch):
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://127.0.0.1:8000/v1/models"
        return httpx.Response(200, json={"data": [{"id": "qwen"}]})

    fake = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(serve, "client", lambda: fake)
    target = endpoint("a=http://127.0.0.1:8000/v1/", "", "").target
    assert (target.name, target.url) == ("a", "http://127.0.0.1:8000")
    assert (target.model, target.tokenizer) == ("qwen", "qwen")


def test_an_endpoint_that_does_not_answer_is_named(monkeypatch):
    fake = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(503)))
    monkeypatch.setattr(serve, "client", lambda: fake)
    with pytest.raises(UsageError, match="--model"):
        endpoint("a=http://127.0.0.1:8000", "", "")


def test_neither_a_url_nor_a_run(monkeypatch, tmp_path):
    monkeypatch.setenv("RAYPD_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="no local run named 'a'"):
        endpoint("a", "", "")
    with pytest.raises(UsageError, match="NAME=http"):
        endpoint("a=127.0.0.1:8000", "", "")


def test_more_than_a_run_takes_is_refused_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(state, "need", lambda name: _run(tmp_path))
    with pytest.raises(
        UsageError, match=r"4,112 tokens with the answer and the 8 by which.* and a takes 4,096"
    ):
        serve._refuse(_asked().plan(0), [endpoint("a", "", "")])
    with pytest.raises(UsageError, match="a name of its own"):
        serve._refuse(_asked(prompts="64", mix="").plan(0), [endpoint("a", "", "")] * 2)


def test_pictures_show_every_endpoint_and_only_what_was_asked():
    results = _results()
    pictures = serve.draw(results)
    assert pictures.keys() == {"new-prompts", "streams"}
    labels = [text.get_text() for text in pictures["streams"].axes[0].get_legend().get_texts()]
    assert labels == ["pd, median", "pd, p99", "aggregated, median", "aggregated, p99"]
    (line, _) = pictures["new-prompts"].axes[0].get_lines()
    assert list(line.get_ydata()) == [100, 100]
    assert "<svg" in page(results, PRESENTATION, pictures)


def test_a_pause_of_0_is_a_figure_and_not_a_gap_in_the_line():
    results = _results()
    results.rows = [{**row, "itl_p50_ms": 0.0} for row in results.rows]
    lines = serve.draw(results)["streams"].axes[0].get_lines()
    assert [len(line.get_xdata()) for line in lines] == [2, 2, 2, 2]


def _results() -> Results:
    questions = [
        *(Question("new prompt", tokens) for tokens in (1024, 4096)),
        *(Question("mix", 4096, streams=8, rate=rate) for rate in (0.0, 2.0)),
    ]
    cell = Cell(first=[0.1], gaps=[0.02, 0.03], requests=1)
    rows = [cell.row(q, name, False) for q in questions for name in ("pd", "aggregated")]
    return Results(command="raypd bench serve", versions={}, hardware={}, rows=rows)


def _run(folder) -> state.State:
    return state.State(
        name="a",
        run_id="a-1",
        folder=folder,
        model_id="m",
        model_source="/m",
        max_model_len=4096,
        caches={},
        disaggregated=True,
        backends=["UCX"],
        gcs_port=1,
        dashboard_port=2,
        http_port=3,
        metrics={},
        nixl_metrics={},
        groups={},
    )
