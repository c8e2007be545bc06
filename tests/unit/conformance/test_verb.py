"""The verb: what is wrong with a call, exit codes, and the forms of its report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import httpx
import pytest

from raypd.conformance import html, junit
from raypd.conformance.outcome import Result, Verdict, Wrong
from raypd.conformance.report import Report
from raypd.conformance.suite import CHECKS, GROUPS
from raypd.conformance.verb import Question, judge, list_checks, run, run_release
from raypd.report import UsageError
from unit.conformance.misbehaviours.usage import MISBEHAVIOURS
from unit.conformance.served import serve
from unit.conformance.stub import KEY, MODEL, Refused, Stub


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (Question(None), "Which server?"),
        (Question(""), "Which server?"),
        (Question("localhost:8000"), "no URL of a server"),
        (Question("ftp://x/v1"), "no URL of a server"),
        (Question("http://"), "no URL of a server"),
        (Question("http://x:port/v1"), "no URL of a server"),
        (Question("http://127.0.0.1:9/v1", timeout=5), "does not answer"),
        (Question("http://x/v1", groups=["models", "no-such"]), "no such group"),
        (Question("http://127.0.0.1:9/v1", reference="http://127.0.0.1:9/v2"), "--reference"),
    ],
)
def test_what_is_wrong_with_a_call(question: Question, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        run(question, None, None, "human")


def test_a_folder_that_is_not_there_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        run(Question("http://127.0.0.1:9/v1"), tmp_path / "no" / "x.xml", None, "human")


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with serve(Stub()) as url, pytest.raises(UsageError, match="cannot be written"):
        run(Question(url, KEY, groups=["models"]), tmp_path, None, "human")


@pytest.mark.parametrize(
    ("path", "answer", "says"),
    [
        ("/v1", lambda: Refused(401, "Incorrect API key provided."), "the key of --api-key"),
        ("", lambda: Refused(404, "Not found."), "has to end in the version"),
        ("/v1", lambda: Refused(500, "Sorry."), "names no model"),
    ],
)
def test_a_server_that_cannot_be_judged(path: str, answer, says: str) -> None:
    stub = Stub()

    def route(*_):
        raise answer()

    stub.route = route
    with pytest.raises(UsageError, match=says):
        judge(Question(f"http://stub{path}", KEY), CHECKS, stub)


def test_a_key_that_is_missing_is_asked_for() -> None:
    with pytest.raises(UsageError, match="give its key with --api-key"):
        judge(Question("http://stub/v1"), CHECKS, Stub())


def test_the_key_is_the_reference_s_too() -> None:
    question = Question("http://a/v1", KEY, reference="http://b/v1")
    report = judge(question, CHECKS[-2:], Stub(), Stub())
    assert [result.verdict for result in report.results] == [Verdict.PASS] * 2


def test_with_a_named_model_a_server_without_a_list_is_judged() -> None:
    stub = Stub()
    stub.models = lambda: {"object": "list", "data": []}
    report = judge(Question("http://stub/v1", KEY, MODEL), CHECKS, stub)
    verdicts = {result.id: result.verdict for result in report.results}
    assert verdicts["models/list-models"] == Verdict.FAIL
    assert verdicts["chat/answer-fields"] == Verdict.PASS


def test_over_a_socket_a_right_server_passes_with_code_0(tmp_path: Path, capsys) -> None:
    with serve(Stub()) as url, serve(Stub(None)) as reference:
        question = Question(url, KEY, reference=reference)
        code = run(question, tmp_path / "r.xml", tmp_path / "r.html", "json")
    found = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in found["checks"] if c["verdict"] != "PASS"] == []
    assert code == 0
    assert (found["url"], found["model"], found["reference"]) == (url, MODEL, reference)
    cases = ElementTree.parse(tmp_path / "r.xml").getroot().findall("testsuite/testcase")
    assert len(cases) == len(CHECKS) == (tmp_path / "r.html").read_text().count("<tr>")


def test_of_a_release_the_door_is_asked_through_the_cluster(monkeypatch, capsys) -> None:
    door = {"metadata": {"name": "head-1"}}
    served = SimpleNamespace(namespace="inference", door=door, prefix="")
    asked = []

    def to_pod(cluster: object, namespace: str, pod: str) -> Stub:
        asked.append((cluster, namespace, pod))
        return Stub()

    monkeypatch.setattr("raypd.live.cluster.Cluster", lambda *given: given)
    monkeypatch.setattr("raypd.live.served.find", lambda cluster, release, namespace: served)
    monkeypatch.setattr("raypd.live.forward.to_pod", to_pod)
    question = Question(None, KEY, groups=["models"])
    code = run_release("llm", "inference", None, "mine", question, None, None, "json")
    assert json.loads(capsys.readouterr().out)["url"] == "http://head-1:8000/v1"
    assert asked == [((None, "mine"), "inference", "head-1")]
    assert code == 0


def test_a_url_and_a_release_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="which of the two"):
        run_release("llm", "x", None, None, Question("http://x/v1"), None, None, "human")


def test_a_wrong_server_fails_with_code_1(tmp_path: Path, capsys) -> None:
    (wrong,) = [one for one in MISBEHAVIOURS if one.name == "usage does not add up"]
    with serve(wrong.stub()) as url:
        code = run(Question(url, KEY, groups=["usage"]), tmp_path / "r.xml", None, "human")
    assert code == 1
    told = capsys.readouterr().out
    assert re.search(r"adds-up\s+│ FAIL", told)
    assert "4 passed, 1 failed" in told
    suite = ElementTree.parse(tmp_path / "r.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("usage", "5", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "total_tokens is not the sum" in (failure.get("message") or "")
    assert '"total_tokens": 1' in (failure.text or "")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.PASS], 0),
        ([Verdict.KNOWN_GAP], 0),
        ([Verdict.PASS, Verdict.NOT_APPLICABLE], 0),
        ([Verdict.PASS, Verdict.FAIL], 1),
        ([Verdict.FAIL, Verdict.NOT_RUN], 1),
        ([Verdict.PASS, Verdict.NOT_RUN], 2),
        ([Verdict.NOT_APPLICABLE], 2),
        ([], 2),
    ],
)
def test_exit_codes(verdicts: list[Verdict], code: int) -> None:
    results = [Result("g", "n", "t", verdict, []) for verdict in verdicts]
    assert Report("u", "m", None, results, 1.0).exit_code == code


NASTY = "<script>&\"' \x00\x1b[31m \ud83d [bold]x[/bold]"


def nasty(verdict: Verdict) -> Report:
    gap = {"gap": "A gap.", "upstream": "Ray 2.58.0, somewhere"}
    wrong = Wrong(NASTY, 400, NASTY)
    result = Result("g", "n", NASTY, verdict, [NASTY], [wrong], [gap])
    return Report("http://x/v1", NASTY, NASTY, [result], 1.0)


@pytest.mark.parametrize("verdict", Verdict)
def test_what_a_server_sends_breaks_no_report(verdict: Verdict, capsys, tmp_path: Path) -> None:
    report = nasty(verdict)
    case = ElementTree.fromstring(junit.document(report)).find("testsuite/testcase")
    assert case is not None
    children = {Verdict.PASS: [], Verdict.FAIL: ["failure"], Verdict.NOT_RUN: ["error"]}
    assert [child.tag for child in case] == children.get(verdict, ["skipped"])
    page = html.page(report)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    report.print("json")
    assert json.loads(capsys.readouterr().out)["checks"][0]["verdict"] == verdict
    report.print("human")
    printed = capsys.readouterr().out
    assert "[bold]" in printed
    assert "\x1b" not in printed


def test_the_page_names_its_checks_and_has_code_as_code() -> None:
    gap = {"gap": "There is no `GET <x>`.", "upstream": "Ray 2.58.0, somewhere"}
    result = Result("chat", "responses", "t", Verdict.KNOWN_GAP, [], gaps=[gap])
    page = html.page(Report("http://x/v1", "m", None, [result], 1.0))
    assert "There is no <code>GET &lt;x&gt;</code>." in page
    assert ">chat/responses<" in page


def test_a_long_path_is_not_cut_off(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = "/".join(f"folder{number}" for number in range(12))
    result = Result("g", "n", "t", Verdict.KNOWN_GAP, [], gaps=[{"gap": "G.", "upstream": path}])
    Report("http://x/v1", "m", None, [result], 1.0).print("human")
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert path in "".join(line.rpartition("│")[2].strip() for line in printed.splitlines())


def test_a_known_gap_tells_its_reference(capsys) -> None:
    report = nasty(Verdict.KNOWN_GAP)
    report.print("human")
    assert "Ray 2.58.0, somewhere" in " ".join(capsys.readouterr().out.split())
    assert "Ray 2.58.0, somewhere" in junit.document(report)
    assert "Ray 2.58.0, somewhere" in html.page(report)


def test_the_list_of_checks(capsys) -> None:
    assert list_checks([], "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["group"] for row in rows} == set(GROUPS)
    assert list_checks(["auth"], "human") == 0
    printed = capsys.readouterr().out
    assert "wrong-key" in printed
    assert "unknown-model" not in printed


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serve(Stub()) as url:
        report = judge(Question(url, KEY), CHECKS[:1])
    assert report.exit_code == 0


def test_a_server_that_dies_in_the_middle_fails_and_ends_nothing() -> None:
    stub, asked = Stub(), []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > 20:
            raise httpx.ConnectError("Connection refused")
        return stub.handle_request(request)

    report = judge(Question("http://stub/v1", KEY), CHECKS, httpx.MockTransport(answer))
    last = report.results[-10]
    assert last.verdict == Verdict.FAIL
    assert "ConnectError: Connection refused" in last.words[0]
