"""What the load generator is asked for, and what is taken from its results."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from raypd.bench import load
from raypd.bench.load import Load, LoadFailed, Measured, Part, Target
from raypd.report import UsageError

TARGET = Target("a", "http://127.0.0.1:1", "m", "/m")
RESULT = {
    "duration": 2.0,
    "start_times": [10.0, 10.5, 11.0],
    "ttfts": [0.1, 0.2, 0.0],
    "itls": [[0.1, 0.3], [0.1], []],
    "errors": ["", "", "Traceback ...\nClientError: refused\n"],
    "total_output_tokens": 5,
    "request_goodput": 1.0,
}


def _option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_a_prompt_is_as_long_as_asked_and_begins_with_something_new():
    words = Part(1, 1024, 8, seed=7).job(TARGET)["arguments"]
    new = int(_option(words, "--random-prefix-len"))
    assert new > 0
    assert new + int(_option(words, "--random-input-len")) == 1024
    assert _option(words, "--seed") == "7"


def test_no_request_goes_out_before_the_measurement():
    words = Part(1, 1024, 8, seed=7).job(TARGET)["arguments"]
    assert _option(words, "--ready-check-timeout-sec") == "0"


def test_arrivals_and_targets():
    job = Part(9, 64, 8, 1, rate=2.5, after=1.5, goodput=("ttft:500", "tpot:50")).job(TARGET)
    assert _option(job["arguments"], "--request-rate") == "2.5"
    assert job["after"] == 1.5
    assert job["arguments"][-3:] == ["--goodput", "ttft:500", "tpot:50"]


def test_a_request_that_failed_is_counted_and_not_measured():
    measured = Measured.of(RESULT)
    assert measured.first == [0.1, 0.2]
    assert (measured.failed, measured.error) == (1, "ClientError: refused")
    assert measured.good == 2.0


def test_pauses_of_a_time_alone():
    # Tokens at 10.1, 10.2, 10.5 and at 10.7, 10.8: each pause belongs to the moment that it ends.
    measured = Measured.of(RESULT)
    assert measured.gaps_between(10.0, 10.3) == pytest.approx([0.1])
    assert measured.gaps_between(10.4, 10.9) == pytest.approx([0.3, 0.1])


@pytest.fixture
def generator(monkeypatch, tmp_path):
    """A generator in place of vLLM's: it runs the given program on each job."""

    def made(body: str) -> Load:
        program = tmp_path / "load.py"
        program.write_text(f"import json, sys, time\nfor line in sys.stdin:\n{body}")
        monkeypatch.setattr(load, "_INSIDE", program)
        monkeypatch.setattr(load, "runtime_python", lambda: Path(sys.executable))
        monkeypatch.setattr(load, "runtime_environment", dict)
        return Load(tmp_path / "log")

    return made


def test_parts_go_out_together_and_come_back_in_order(generator):
    body = f"""    print(json.dumps({{"results": [dict({RESULT!r}, duration=p["after"]) for p in json.loads(line)["parts"]]}}), flush=True)\n"""
    with generator(body) as running:
        parts = [Part(1, 64, 8, 1, after=1.0), Part(1, 64, 8, 1, after=2.0)]
        assert [m.seconds for m in running.measure(TARGET, parts)] == [1.0, 2.0]


def test_what_the_generator_gives_up_is_said(generator):
    body = """    print(json.dumps({"error": "ValueError: no tokenizer"}), flush=True)\n"""
    with generator(body) as running, pytest.raises(LoadFailed, match="no tokenizer"):
        running.measure(TARGET, [Part(1, 64, 8, 1)])


def test_a_generator_that_ends_is_told_with_its_last_words(generator):
    words = "no module named vllm"
    with generator(f"    sys.exit({words!r})\n") as run, pytest.raises(UsageError, match=words):
        run.measure(TARGET, [Part(1, 64, 8, 1)])


def test_after_a_measurement_without_end_the_next_has_its_own_answer(generator):
    answer = json.dumps({"results": [RESULT]})
    body = f"    time.sleep(60 if json.loads(line)['parts'][0]['after'] else 0)\n    print({answer!r}, flush=True)\n"
    with generator(body) as running:
        with pytest.raises(LoadFailed, match="no end"):
            running.measure(TARGET, [Part(1, 64, 8, 1, after=1.0)], seconds=1)
        assert running.measure(TARGET, [Part(1, 64, 8, 1)])[0].seconds == 2.0


def test_the_key_goes_to_the_generator_alone(generator):
    body = f"""    print(json.dumps({{"results": [dict({RESULT!r}, duration=float(json.loads(line)["api_key"]))]}}), flush=True)\n"""
    with generator(body) as running:
        target = replace(TARGET, api_key="7.5")
        assert running.measure(target, [Part(1, 64, 8, 1)])[0].seconds == 7.5
    assert "7.5" not in repr(target)
