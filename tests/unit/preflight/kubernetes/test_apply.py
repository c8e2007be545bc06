"""The render, tried by the API server without being kept."""

from __future__ import annotations

from raypd.live.cluster import Forbidden, Refused
from raypd.preflight.kubernetes.apply import server_accepts
from raypd.report import UsageError
from unit.preflight.kubernetes.good import Cluster, on
from unit.preflight.simulated import codes, only, outcomes, seen, unseen


def test_a_server_that_takes_everything() -> None:
    cluster = Cluster()
    found = outcomes(server_accepts, on(cluster))
    assert codes(found) == []
    tried = {manifest["kind"]: strict for manifest, strict in cluster.tried}
    # Of a RayService the fields that the CRD does not know are told by RPD682.
    assert tried["RayService"] is False
    assert tried["PodDisruptionBudget"] is True
    assert {manifest["metadata"]["namespace"] for manifest, _ in cluster.tried} == {"inference"}
    assert f"{len(cluster.tried)} objects tried" in seen(found)
    assert cluster.applied == []


def test_an_object_that_it_refuses() -> None:
    cluster = Cluster()
    words = "admission webhook denied the request: label team is missing"
    cluster.refuses["RayService"] = Refused(words)
    finding = only(outcomes(server_accepts, on(cluster)), "RPD850")
    assert finding.path == "RayService llm-ray-pd-llm"
    assert words in finding.message


def test_every_refusal_is_told() -> None:
    cluster = Cluster()
    cluster.refuses = {kind: Refused(kind) for kind in ("RayService", "ServiceAccount")}
    assert codes(outcomes(server_accepts, on(cluster))) == ["RPD850", "RPD850"]


def test_rights_that_are_missing_are_not_checked() -> None:
    cluster = Cluster()
    cluster.refuses["RayService"] = Forbidden("you may not patch rayservices")
    found = outcomes(server_accepts, on(cluster))
    assert codes(found) == []
    assert "RayService llm-ray-pd-llm: you may not patch rayservices" in unseen(found)


def test_a_namespace_that_is_to_be_made_is_not_checked() -> None:
    cluster = Cluster()
    found = outcomes(server_accepts, on(cluster, facts={"namespace": None}))
    assert "namespace inference is not there" in unseen(found)
    assert cluster.tried == []


def test_kinds_that_the_cluster_does_not_know_are_left_to_their_own_rule() -> None:
    cluster = Cluster()
    outcomes(server_accepts, on(cluster, facts={"kinds": {"ray.io/v1": None}}))
    assert cluster.tried == []


def test_a_server_that_goes_away_is_not_checked() -> None:
    cluster = Cluster()
    cluster.refuses["RayService"] = UsageError("The API server does not answer")
    assert "does not answer" in unseen(outcomes(server_accepts, on(cluster)))
