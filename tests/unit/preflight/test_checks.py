"""The list of checks, and how a run is reported."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator

import pytest

from raypd.lint.subject import error, warning
from raypd.preflight.checks import CHECKS, Check, Preflight, run
from raypd.preflight.outcome import Idle, NotChecked, Once, Outcome, Seen
from raypd.preflight.site import Site
from unit.preflight.simulated import site


def check(*made: Outcome, title: str = "this", side: str = "AWS") -> Check:
    def function(_: Site) -> Iterator[Outcome]:
        for outcome in made:
            if isinstance(outcome, NotChecked) and outcome is made[-1]:
                raise outcome
            yield outcome

    return Check(side, title, function)


BROKEN = error("RPD800", "quota", "Too small.", "Raise it.")


def test_every_check_has_a_name_a_title_and_a_sentence() -> None:
    names = [one.name for one in CHECKS]
    assert len(names) == len(set(names))
    for one in CHECKS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", one.name)
        assert one.title
    own = [one for one in CHECKS if one.function.__module__.count("existing") == 0]
    assert [one.name for one in own if not one.function.__doc__] == []


def test_what_was_seen_found_and_not_looked_at() -> None:
    checks = [
        check(Seen("128 allowed"), title="quotas"),
        check(BROKEN, title="types"),
        check(NotChecked("no rights"), title="images"),
        check(Seen("one group"), NotChecked("another is hidden"), title="groups"),
    ]
    report = run(site(), checks)
    assert report.findings == [BROKEN]
    assert report.checked == ["AWS, quotas: 128 allowed", "AWS, types", "AWS, groups: one group"]
    assert report.not_checked == ["AWS, images: no rights", "AWS, groups: another is hidden"]
    assert (report.made, report.total) == (2, 4)


def test_one_reason_is_told_once_for_all_checks() -> None:
    checks = [check(NotChecked("no credentials"), title=title) for title in ("quotas", "types")]
    checks.append(check(NotChecked("no credentials"), title="image", side="registry"))
    assert run(site(), checks).not_checked == [
        "AWS, quotas; types: no credentials",
        "registry, image: no credentials",
    ]


def test_a_check_with_nothing_to_look_at_does_not_count() -> None:
    report = run(site(), [check(Idle("none named")), check(NotChecked("no cluster"))])
    assert (report.made, report.total) == (0, 1)


@pytest.mark.parametrize(
    ("made", "code", "says"),
    [
        ([check(Seen("x"))], 0, "No findings."),
        ([check(Seen("x")), check(NotChecked("y"))], 0, "No findings. 1 of 2 checks"),
        ([check(BROKEN), check(NotChecked("y"))], 1, "1 error. 1 of 2 checks"),
        ([check(warning("RPD808", "p", "Not yet.", "Wait."))], 0, "1 warning."),
        ([check(NotChecked("y"))], 2, "Nothing was checked."),
        ([check(BROKEN, NotChecked("y"))], 1, "1 error. 0 of 1 checks"),
    ],
)
def test_what_is_not_checked_is_no_pass(made: list[Check], code: int, says: str) -> None:
    report = run(site(), made)
    printed = io.StringIO()
    report.print(file=printed)
    assert report.exit_code == code
    assert says in printed.getvalue()


def test_checks_wait_side_by_side() -> None:
    meeting = threading.Barrier(4, timeout=60)

    def function(_: Site) -> Iterator[Outcome]:
        meeting.wait()
        yield Seen("met")

    report = run(site(), [Check("AWS", f"check {n}", function) for n in range(4)])
    assert report.made == 4


def test_a_report_as_json() -> None:
    printed = io.StringIO()
    Preflight(made=1, total=2).print("json", printed)
    assert '"made": 1' in printed.getvalue()


def test_a_question_is_asked_once_and_its_failure_remembered() -> None:
    asked = []

    def ask() -> str:
        asked.append(1)
        raise NotChecked("no answer")

    once = Once(ask)
    for _ in range(3):
        with pytest.raises(NotChecked, match="no answer"):
            once()
    assert len(asked) == 1
