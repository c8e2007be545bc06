"""The report: its JSON shape, its exit code, and what a person reads."""

from __future__ import annotations

import io
import json

import pytest
from pydantic import ValidationError

from raypd.report import Finding, Report

ERROR = Finding(
    code="RPD337", severity="error", path="a.b", message="It is missing.", remedy="Write it."
)
WARNING = ERROR.model_copy(update={"severity": "warning", "code": "RPD335"})


def printed(report: Report, output: str) -> str:
    stream = io.StringIO()
    report.print(output, file=stream)
    return stream.getvalue()


def test_json_is_one_object_with_three_lists() -> None:
    report = Report(findings=[ERROR], checked=["this"], not_checked=["that"])
    assert json.loads(printed(report, "json")) == {
        "findings": [
            {
                "code": "RPD337",
                "severity": "error",
                "path": "a.b",
                "message": "It is missing.",
                "remedy": "Write it.",
            }
        ],
        "checked": ["this"],
        "not_checked": ["that"],
    }


@pytest.mark.parametrize(("findings", "code"), [([], 0), ([WARNING], 0), ([WARNING, ERROR], 1)])
def test_only_errors_fail(findings: list[Finding], code: int) -> None:
    assert Report(findings=findings).exit_code == code


def test_a_person_reads_code_path_reason_and_remedy_and_how_far_the_checks_reach() -> None:
    text = printed(Report(findings=[ERROR], checked=["this"], not_checked=["that"]), "human")
    for part in ("RPD337 error", "a.b", "It is missing.", "Instead: Write it.", "this", "that"):
        assert part in text
    assert text.index("Checked:") < text.index("this") < text.index("Not checked:")
    assert "1 error." in text.splitlines()[-1]


def test_long_text_is_wrapped_without_blanks_at_the_end() -> None:
    long = ERROR.model_copy(update={"message": "word " * 60})
    lines = printed(Report(findings=[long]), "human").splitlines()
    assert all(line == line.rstrip() and len(line) <= 80 for line in lines)


def test_markup_in_a_message_is_printed_as_it_is() -> None:
    odd = ERROR.model_copy(update={"message": "[bold]x[/bold] [RPD1]"})
    assert "[bold]x[/bold] [RPD1]" in printed(Report(findings=[odd]), "human")


def test_a_code_has_a_fixed_form() -> None:
    with pytest.raises(ValidationError):
        Finding(code="X1", severity="error", path="", message="", remedy="")
