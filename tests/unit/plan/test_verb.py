"""`raypd plan` on models, on values, and on mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raypd.plan import cost, verb
from raypd.plan.verb import Plan, Question, as_json, make
from raypd.render import ValueArguments
from raypd.report import UsageError
from unit.plan.samples import CHART, DEEPSEEK_V3, ROOT

FILES = sorted((ROOT / "values").glob("*.yaml"))
PRICES = cost.read_prices(None)


def plan(*set_: str, files: list[Path] | None = None, **question) -> Plan:
    return make(CHART, ValueArguments(files or [], list(set_)), Question(**question), PRICES)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_shipped_values_file_has_no_error(path: Path) -> None:
    made = plan(files=[path])
    assert [f.code for f in made.findings if f.severity == "error"] == []
    assert made.sections or any("runtime.device is cpu" in line for line in made.not_checked)


def test_values_that_do_not_fit() -> None:
    made = plan("model.source=Qwen/Qwen3-14B", "model.id=x")
    assert {finding.code for finding in made.findings} == {"RPD701"}


def test_values_that_do_not_render_say_so_first() -> None:
    made = plan("prefill.replicass=2")
    assert [finding.code for finding in made.findings] == ["RPD101"]
    assert made.sections == []


def test_null_is_the_default_as_in_the_chart() -> None:
    assert plan("prefill.parallelism=null").title == plan().title


def test_requests_longer_than_the_context() -> None:
    assert [f.code for f in plan(input=4000, output=200).findings] == ["RPD716"]
    assert plan(input=3800, output=200).findings == []


def test_the_default_traffic_fits_any_context() -> None:
    for length in (1, 2, 100, 4096, 131_072):
        traffic = Question().traffic(length)
        assert traffic.input >= 1
        assert traffic.output >= 1
        assert traffic.tokens <= max(length, 2)


def test_a_model_that_is_not_in_the_tables_by_its_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DEEPSEEK_V3))
    made = plan(model=str(path), instance="p5en.48xlarge")
    assert "MLA" in made.title
    assert made.sections
    every = plan(model=str(path))
    assert [one.numbers.role.instance for one in every.candidates][:1]
    beside = plan("model.source=some/where", "model.kind=dense", model=str(path))
    assert [f.code for f in beside.findings] == ["RPD701", "RPD701"]


def test_a_rate_gives_the_number_of_engines() -> None:
    few = plan(model="Qwen/Qwen3-8B", instance="g6e.8xlarge", rate=1.0)
    many = plan(model="Qwen/Qwen3-8B", instance="g6e.8xlarge", rate=8.0)
    numbers = [
        {number.key: number.value for part in made.sections for number in part.numbers}
        for made in (few, many)
    ]
    assert numbers[0]["needed.decode"] < numbers[1]["needed.decode"]
    assert few.findings == many.findings == []
    assert numbers[1]["perHour"] > numbers[0]["perHour"]


def test_no_type_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**DEEPSEEK_V3, "n_routed_experts": 4096}))
    assert [finding.code for finding in plan(model=str(path)).findings] == ["RPD701"]


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"model": "no/such"}, "config.json"),
        ({"model": "Qwen/Qwen3-8B", "instance": "x9.large"}, "x9.large"),
        ({"model": "Qwen/Qwen3-8B", "max_context": 50_000}, "40,960"),
        ({"instance": "g6.8xlarge"}, "--instance"),
        ({"max_context": 5}, "--max-model-len"),
    ],
)
def test_a_question_that_cannot_be_answered(question: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan(**question)


def test_json_has_every_number_with_its_formula_and_no_infinity() -> None:
    for made in (plan(), plan(model="Qwen/Qwen3-32B", itl=0.001), plan("model.maxModelLen=8192")):
        parsed = json.loads(json.dumps(as_json(made), allow_nan=False))
        numbers = [number for part in parsed["sections"] for number in part["numbers"]]
        assert numbers
        assert all(number["words"] and number["figures"] for number in numbers)


@pytest.mark.parametrize("explain", [False, True])
def test_people_get_formulas_when_they_ask(explain: bool, capsys: pytest.CaptureFixture) -> None:
    arguments = ValueArguments([], [])
    assert verb.run(CHART, arguments, Question(), None, explain, None, "human") == 0
    printed = capsys.readouterr().out
    assert "Best served" in printed
    assert ("8 * 2 * 4 * 256 * 2" in printed) == explain


def test_a_table_of_types_is_not_cut(capsys: pytest.CaptureFixture) -> None:
    question = Question("Qwen/Qwen3-32B", rate=2, itl=0.06)
    assert verb.run(CHART, ValueArguments([], []), question, None, False, None, "human") == 0
    printed = capsys.readouterr().out
    assert "RTX PRO Server 6000" in printed
    assert "…" not in printed


def test_a_picture_needs_one_deployment(tmp_path: Path) -> None:
    arguments, path = ValueArguments([], []), tmp_path / "a.png"
    with pytest.raises(UsageError, match="--plot"):
        verb.run(CHART, arguments, Question("Qwen/Qwen3-8B"), None, False, path, "human")
    assert verb.run(CHART, arguments, Question(), None, False, path, "json") == 0
    assert path.stat().st_size > 10_000


def test_a_target_counts_for_aggregated_engines_too() -> None:
    """A prompt there waits behind other prompts, and not behind their answers."""
    file = [ROOT / "values" / "g6-qwen3.5-9b-aggregated.yaml"]

    def numbers(rate: float, ttft: float | None = None) -> dict[str, float]:
        made = plan(files=file, rate=rate, ttft=ttft)
        return {number.key: number.value for part in made.sections for number in part.numbers}

    idle = numbers(0.001)["ttft"]
    assert numbers(0.3)["ttft"] == pytest.approx(idle, rel=0.1)
    assert numbers(0.6)["ttft"] == float("inf")  # more than the two engines serve
    by_load = numbers(0.3)["needed.engine"]
    assert numbers(0.3, 60.0)["needed.engine"] == by_load
    assert numbers(0.3, idle * 1.01)["needed.engine"] > by_load
    assert "needed.engine" not in numbers(0.3, idle * 0.9)
