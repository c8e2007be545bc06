"""The checks of `raypd up`, each by itself."""

from __future__ import annotations

import pytest

from raypd.live.install import preconditions
from raypd.preflight.kubernetes.existing import _READS, CHECKS
from unit.live import paper
from unit.preflight.kubernetes.good import on
from unit.preflight.simulated import codes, outcomes, unseen

BY_NAME = {function.__name__: function for _, function in CHECKS}


def test_all_of_them_are_here() -> None:
    assert [f.__name__ for _, f in preconditions.CHECKS] == list(BY_NAME)
    assert set(_READS) <= set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_cluster_on_paper_passes(name: str) -> None:
    found = outcomes(BY_NAME[name], on(facts={"nodes": paper.nodes()}))
    assert (codes(found), unseen(found)) == ([], "")


@pytest.mark.parametrize(
    ("name", "facts", "code"),
    [
        ("kubernetes_version_known", {"server": "v1.99.0"}, "RPD688"),
        ("operator_there", {"operators": []}, "RPD683"),
        ("operator_running", {"operators": [paper.operator(ready=0)]}, "RPD684"),
        ("room_for_pods", {"nodes": paper.nodes()[:2]}, "RPD697"),
    ],
)
def test_a_finding_is_handed_on(name: str, facts: dict[str, object], code: str) -> None:
    assert codes(outcomes(BY_NAME[name], on(facts=facts))) == [code]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("room_for_pods", "pods of all namespaces"),
        ("operator_there", "KubeRay's operator"),
        ("references_there", "Secret hf-token"),
        ("namespace_admits_pods", "the namespace"),
        ("no_field_dropped", "the RayService CRD"),
    ],
)
def test_what_may_not_be_read_is_not_checked(name: str, what: str) -> None:
    found = outcomes(BY_NAME[name], on(facts={"unseen": {what: "you may not"}}))
    assert codes(found) == []
    assert unseen(found) == f"{what}: you may not"


def test_where_there_is_no_operator_nothing_of_it_is_checked() -> None:
    where = on(facts={"operators": []})
    assert unseen(outcomes(BY_NAME["operator_running"], where)) == "there is no KubeRay operator"
