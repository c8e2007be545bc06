"""Causes, and what follows from them."""

from __future__ import annotations

from raypd.live.diagnosis.trouble import causes, findings, of_pod, of_release, of_roles
from unit.live.sample import pod, snapshot


def stage(*troubles):
    return [lambda _: iter(troubles)]


def told(*stages):
    return findings(causes(stages, snapshot()))


DECODE = of_pod("RPD620", pod("decode"), "no image", "an image")
PREFILL = of_pod("RPD620", pod("prefill"), "no image", "an image")
SERVE = of_roles("RPD642", "deployment Decode", ["decode"], "unhealthy", "its log")


def test_a_later_trouble_of_the_same_role_follows():
    (finding,) = told(stage(DECODE), stage(SERVE))
    assert finding.code == "RPD620"
    assert "What follows from it: deployment Decode (engine that Ray Serve gives up on)" in (
        finding.message
    )


def test_a_trouble_of_another_role_stands_by_itself():
    assert [f.code for f in told(stage(PREFILL), stage(SERVE))] == ["RPD620", "RPD642"]


def test_troubles_of_one_stage_do_not_explain_each_other():
    assert [f.code for f in told([*stage(DECODE), *stage(SERVE)])] == ["RPD620", "RPD642"]


def test_everything_follows_from_the_head():
    head = of_pod("RPD631", pod("head"), "memory", "more")
    (finding,) = told(stage(head), stage(DECODE, PREFILL), stage(SERVE))
    assert finding.code == "RPD631"
    assert "and" not in finding.path


def test_a_warning_explains_nothing_and_comes_last():
    warning = of_release("RPD607", "the release", "pending", "wait", "warning")
    assert [f.code for f in told(stage(warning), stage(DECODE))] == ["RPD620", "RPD607"]


def test_equal_troubles_are_one_finding_with_a_remedy_for_all():
    one = of_pod("RPD631", pod("decode"), "memory", "{role}.resources.memory of {pod}")
    two = of_pod("RPD631", pod("prefill"), "memory", "{role}.resources.memory of {pod}")
    (finding,) = told(stage(one, two))
    assert finding.path == f"{one.where}, {two.where}"
    assert finding.remedy == f"<role>.resources.memory of {one.pod}"
    (alone,) = told(stage(one))
    assert alone.remedy.startswith("decode.resources.memory")
