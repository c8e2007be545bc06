"""When the waiting ends, and what is seen of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from raypd.live.install.watch import HEALS, Alive, Lines, Verdict, Watch
from raypd.report import Finding, Severity
from unit.live.snapshots import pod, rayservice, running, serve, snapshot

FIRST = snapshot(rayservice=rayservice(pending="c1"), pods=[pod("head", 1)])
LOADING = running(rayservice=rayservice(pending="c1"), serve=serve("DEPLOYING", 1), engine_logs={})


def finding(code: str = "RPD640", path: str = "p", severity: Severity = "error") -> Finding:
    return Finding(code=code, severity=severity, path=path, message="Why.", remedy="Else.")


def fresh() -> Watch:
    return Watch(upgraded=False, engines_start=True)


def test_seconds_of_each_stage_and_the_end() -> None:
    watch = fresh()
    assert watch.look(FIRST, [], 3.04) is Verdict.WAIT
    assert watch.look(LOADING, [], 30) is Verdict.WAIT
    assert watch.look(running(), [], 90) is Verdict.SERVES
    assert watch.seconds == {
        "pods scheduled": 30,
        "images pulled": 30,
        "containers started": 30,
        "weights loaded": 90,
        "engines started": 90,
        "application runs": 90,
    }


def test_a_stage_that_falls_back_is_not_done() -> None:
    watch = fresh()
    watch.look(LOADING, [], 30)
    watch.look(FIRST, [], 40)
    assert watch.seconds == {}


def test_after_an_upgrade_it_has_to_serve_twice() -> None:
    watch = Watch(upgraded=True, engines_start=False)
    assert watch.look(running(), [], 1) is Verdict.WAIT
    assert watch.look(LOADING, [], 4) is Verdict.WAIT
    assert watch.look(running(), [], 7) is Verdict.WAIT
    assert watch.look(running(), [], 10) is Verdict.SERVES


def test_an_error_that_stays_ends_it() -> None:
    watch = fresh()
    assert watch.look(LOADING, [finding()], 1) is Verdict.WAIT
    assert watch.look(LOADING, [finding(), finding("RPD641")], 4) is Verdict.FAILED
    assert watch.failures == [finding()]


@pytest.mark.parametrize(
    "second",
    [[], [finding(path="q")], [finding(severity="warning")]],
)
def test_an_error_that_goes_away_does_not(second: list[Finding]) -> None:
    watch = fresh()
    for findings in ([finding()], second, [finding()]):
        assert watch.look(LOADING, findings, 1) is Verdict.WAIT


def test_before_kuberay_has_noticed_an_upgrade_the_old_failure_does_not_count() -> None:
    old = running(rayservice=rayservice(serving="c1", generation=2), serve=serve("DEPLOY_FAILED"))
    watch = Watch(upgraded=True, engines_start=False)
    for seconds in (0, 3, 6, 29):
        assert watch.look(old, [finding()], seconds) is Verdict.WAIT
    assert watch.look(old, [finding()], 32) is Verdict.WAIT
    assert watch.look(old, [finding()], 35) is Verdict.FAILED


@pytest.mark.parametrize("code", sorted(HEALS))
def test_what_heals_by_itself_is_waited_for(code: str) -> None:
    watch = fresh()
    for _ in range(5):
        assert watch.look(FIRST, [finding(code)], 1) is Verdict.WAIT
    assert watch.findings == [finding(code)]


def test_what_serves_has_not_failed() -> None:
    watch = fresh()
    watch.look(LOADING, [finding()], 1)
    assert watch.look(running(), [finding()], 4) is Verdict.SERVES


def test_a_log_gets_a_line_for_each_change() -> None:
    out = io.StringIO()
    view, watch = Lines(Console(file=out, width=200)), fresh()
    for seconds, look, findings in (
        (0, FIRST, []),
        (3, FIRST, []),
        (6, FIRST, [finding()]),
        (9, FIRST, [finding()]),
        (30, LOADING, []),
    ):
        watch.look(look, findings, seconds)
        view.show(watch, seconds, "no answer" if seconds == 9 else "")
    view.close()
    lines = out.getvalue().splitlines()
    assert lines[0].split(maxsplit=2) == ["0", "s", "pods scheduled 1/3  2 not made yet"]
    assert len([line for line in lines if line.startswith("     0 s")]) == 6
    assert not any(line.startswith("     3 s") for line in lines)
    assert [line for line in lines if line.startswith("     6 s")] == ["     6 s  RPD640 p: Why."]
    assert [line for line in lines if line.startswith("     9 s")] == ["     9 s  no answer"]
    assert "    30 s  pods scheduled 3/3" in lines


def test_a_detail_alone_is_told_now_and_then() -> None:
    out = io.StringIO()
    view, watch = Lines(Console(file=out, width=200)), fresh()
    for seconds in range(0, 60, 3):
        logs = {"llm-decode": f"Loading safetensors checkpoint shards: {seconds}%"}
        watch.look(running(serve=serve("DEPLOYING", 1), engine_logs=logs), [], seconds)
        view.show(watch, seconds)
    weights = [line for line in out.getvalue().splitlines() if "weights loaded" in line]
    assert len(weights) == 2


def test_a_terminal_gets_a_table() -> None:
    out = io.StringIO()
    watch = fresh()
    view = Alive(Console(file=out, width=100, force_terminal=True))
    watch.look(LOADING, [finding(severity="warning")], 30)
    view.show(watch, 30, "no answer")
    view.close()
    for words in ("✓", "pods scheduled", "3/3", "30 s", "RPD640 p: Why.", "no answer"):
        assert words in out.getvalue()
