"""What `raypd doctor` reports."""

from __future__ import annotations

import json

import pytest

from raypd.live import cluster, doctor
from unit.live.sample import pod, rayservice, serve, snapshot, waiting


@pytest.fixture
def examined(monkeypatch, capsys):
    """Runs the verb on a snapshot; gives its exit code and what it printed."""

    def run(taken, output="json"):
        monkeypatch.setattr(cluster, "Cluster", lambda kubeconfig, context: None)
        monkeypatch.setattr(doctor, "take", lambda cluster, release, namespace: taken)
        code = doctor.run("llm", "inference", None, None, output)
        return code, capsys.readouterr().out

    return run


def failed(**changes):
    words = 'secret "hf-token" not found'
    pods = [pod("head"), pod("prefill"), waiting("decode", "CreateContainerConfigError", words)]
    return snapshot(
        rayservice=rayservice(ready=False), serve=serve("DEPLOYING"), pods=pods, **changes
    )


def test_nothing_wrong(examined):
    code, printed = examined(snapshot())
    report = json.loads(printed)
    assert (code, report["findings"]) == (0, [])
    assert len(report["checked"]) == 8
    assert any("raypd verify" in line for line in report["not_checked"])


def test_a_finding_has_place_reason_and_way_out(examined):
    code, printed = examined(failed())
    (finding,) = json.loads(printed)["findings"]
    assert code == 1
    assert finding["code"] == "RPD630"
    assert "decode-worker" in finding["path"]
    assert "kubectl -n inference create secret" in finding["remedy"]


def test_loading_is_no_finding_and_is_said(examined):
    code, printed = examined(snapshot(rayservice=rayservice(ready=False)), "human")
    assert code == 0
    assert printed.startswith("llm in inference: loading")
    assert "No findings." in printed


def test_what_one_may_not_see_was_not_checked(examined):
    _, printed = examined(failed(unseen={"nodes": "nodes is forbidden: User x cannot list"}))
    report = json.loads(printed)
    assert any(line.startswith("nodes: nodes is forbidden") for line in report["not_checked"])


def test_serve_that_cannot_be_asked_was_not_checked(examined):
    taken = snapshot(
        rayservice=rayservice(ready=False),
        pods=[],
        serve=None,
        serve_unreachable="there is no head pod",
    )
    _, printed = examined(taken)
    report = json.loads(printed)
    assert "Ray Serve itself: there is no head pod" in report["not_checked"]
