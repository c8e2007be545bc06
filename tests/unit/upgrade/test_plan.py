"""Each row of docs/upgrades.md, with the chart's own renders: what the plan says is what the page says."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raypd import yaml_text
from raypd.render import Rendered, ValueArguments, default_chart, render
from raypd.upgrade.plan import Plan, make
from unit.live import paper
from unit.upgrade.test_difference import JSON

SPARE = ("upgrade.strategy=NewCluster", "upgrade.spareCapacity=true")
SCALED = ("decode.autoscaling.enabled=true", "decode.autoscaling.maxReplicas=4")
TWO = ("prefill.replicas=2", "decode.replicas=2", "endpoint.replicas=2")


def planned(*after: str, before: tuple[str, ...] = ()) -> Plan:
    return make("test", paper.rendered(*before), paper.rendered(*before, *after))


def codes(plan: Plan) -> list[str]:
    return [finding.code for finding in plan.findings]


def test_the_same_render_is_no_change() -> None:
    plan = planned()
    assert (plan.kind, plan.rows, plan.findings, plan.exit_code) == ("nothing", [], [], 0)
    assert plan.requests == "Requests: go on."


def test_another_chart_version_is_labels_alone(tmp_path: Path) -> None:
    chart = tmp_path / "ray-pd-llm"
    shutil.copytree(default_chart(), chart)
    metadata = chart / "Chart.yaml"
    metadata.write_text(metadata.read_text().replace("version: 0.1.0", "version: 99.0.0"))
    plan = make("test", paper.rendered(), render(chart, ValueArguments()))
    (row,) = plan.rows
    assert (plan.kind, plan.findings, row.actor) == ("in place", [], "Helm")
    assert (row.before, row.after) == ("ray-pd-llm-0.1.0", "ray-pd-llm-99.0.0")
    assert row.where.startswith(
        "6 objects (ConfigMap, NetworkPolicy, PodDisruptionBudget, RayService, ServiceAccount): metadata"
    )


@pytest.mark.parametrize(
    "set_",
    [
        "commonLabels.team=ml",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.prometheusRule.thresholds.queueSeconds=20",
        "ingress.enabled=true",
        "decode.podDisruptionBudget.enabled=false",
    ],
)
def test_other_objects_leave_pods_and_engines_alone(set_: str) -> None:
    before = ("monitoring.prometheusRule.enabled=true",) if "thresholds" in set_ else ()
    plan = planned(set_, before=before)
    assert (plan.kind, codes(plan)) == ("in place", [])
    assert {row.actor for row in plan.rows} == {"Helm"}


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_number_of_replicas_is_handed_on_by_raypd_alone(role: str) -> None:
    plan = planned(f"{role}.replicas=2")
    assert (plan.kind, codes(plan)) == ("in place", ["RPD726"])
    assert plan.findings[0].path == f"group {role}"
    assert {"raypd up; KubeRay does not", "Ray Serve"} < {row.actor for row in plan.rows}
    assert {row.requests for row in plan.rows} == {"go on"}
    assert plan.room.sentence().startswith(
        "Room: 1 GPU, 1 EFA interface, 16 CPUs, 96.0 GiB memory for 1 pod"
    )


@pytest.mark.parametrize(
    ("set_", "before"),
    [
        ("prefill.maxOngoingRequests=8", ()),
        ("endpoint.replicas=2", ()),
        ("endpoint.maxOngoingRequests=800", ()),
        ("endpoint.guard.inFlight=9", ()),
        ("decode.autoscaling.upscaleDelaySeconds=7", SCALED),
        ("decode.autoscaling.targetOngoingRequests=7", SCALED),
    ],
)
def test_numbers_change_in_place(set_: str, before: tuple[str, ...]) -> None:
    plan = planned(set_, before=before)
    assert (plan.kind, codes(plan)) == ("in place", [])
    assert {(row.actor, row.effect) for row in plan.rows} == {("Ray Serve", "taken over in place")}


def test_bounds_of_an_autoscaling_are_two_places_as_well() -> None:
    plan = planned("decode.autoscaling.maxReplicas=5", before=SCALED)
    assert (plan.kind, codes(plan)) == ("in place", ["RPD726"])


@pytest.mark.parametrize(
    "set_",
    [
        "decode.engineArgs.enable_prefix_caching=true",
        "prefill.maxNumSeqs=8",
        "model.maxModelLen=2048",
        "model.kvCacheDtype=fp8",
        "transport.leaseSeconds=60",
        "transport.prewarm=false",
        "transport.ports.decode=23000",
        "transport.loadFailurePolicy=recompute",
    ],
)
def test_arguments_replace_the_engines_in_place(set_: str) -> None:
    plan = planned(set_)
    assert (plan.kind, codes(plan)) == ("new engines in place", ["RPD723"])
    assert plan.sentences[0] == "Pods: stay; nothing in their templates changes."
    engines = [row for row in plan.rows if ".OpenAiIngress." not in row.where]
    assert {row.requests for row in engines} == {"none until the new one has loaded"}
    assert plan.requests.startswith("Requests: none is answered while Prefill:qwen3_5-9b, Decode")


def test_two_of_each_answer_for_each_other() -> None:
    plan = planned("prefill.maxNumSeqs=8", before=TWO)
    assert (plan.kind, codes(plan)) == ("new engines in place", [])
    assert {row.requests for row in plan.rows} == {"go on, with fewer engines"}
    one_less = planned("prefill.maxNumSeqs=8", before=("prefill.replicas=2", "decode.replicas=2"))
    assert one_less.findings[0].message.startswith("OpenAiIngress: one replica,")


PODS = [
    "decode.resources.memory=80Gi",
    "image.tag=other",
    "model.env.VLLM_LOGGING_LEVEL=DEBUG",
    "head.nodeSelector.pool=a",
    "prefill.instanceType=g6.12xlarge",
    "prefill.podAnnotations.a=b",
    "cache.hostPath.path=/mnt/other",
]


@pytest.mark.parametrize("set_", PODS)
def test_pods_wait_under_the_strategy_none(set_: str) -> None:
    plan = planned(set_)
    assert (plan.kind, codes(plan)) == ("ignored", ["RPD725"])
    assert all(row.effect == "ignored until the cluster is replaced" for row in plan.rows)
    command = (
        "kubectl -n inference delete raycluster -l ray.io/originated-from-cr-name=llm-ray-pd-llm"
    )
    assert command in plan.findings[0].remedy
    assert "upgrade.strategy is None" in plan.sentences[0]


@pytest.mark.parametrize("set_", PODS)
def test_pods_make_a_second_cluster_where_there_is_room(set_: str) -> None:
    plan = planned(set_, before=SPARE)
    assert (plan.kind, codes(plan), plan.exit_code) == ("second cluster", [], 0)
    assert plan.room.sentence().startswith("Room: 2 GPUs, 2 EFA interfaces,")
    assert "not checked without a cluster" in plan.room.sentence()
    assert "60 s after" in plan.requests


def test_tolerations_are_for_later_pods() -> None:
    plan = planned("prefill.tolerations[0].operator=Exists")
    assert codes(plan) == ["RPD727"]
    assert {row.effect for row in plan.rows} == {"only for the next cluster's pods"}


def test_the_service_is_written_once() -> None:
    plan = planned("endpoint.service.type=LoadBalancer")
    assert (plan.kind, codes(plan)) == ("ignored", ["RPD728"])
    assert "kubectl -n inference delete service llm-ray-pd-llm-serve-svc" in plan.findings[0].remedy
    (second,) = planned("endpoint.service.type=LoadBalancer", "image.tag=x", before=SPARE).rows[-1:]
    assert second.effect == "a second cluster, then the traffic moves"


def test_another_name_ends_everything() -> None:
    plan = planned("fullnameOverride=other")
    assert (plan.kind, "RPD724" in codes(plan)) == ("replaced", True)
    assert "llm-ray-pd-llm" in plan.sentences[0]


def test_clients_have_to_know_another_name_or_path() -> None:
    named = [f.path for f in planned("model.id=other").findings if f.code == "RPD729"]
    moved = [f.path for f in planned("endpoint.routePrefix=/v2").findings if f.code == "RPD729"]
    assert (named, moved) == (["model qwen3.5-9b"], ["path /"])


def test_a_job_cannot_do_something_else() -> None:
    """The chart's prefetch Job has another name when it does; that of an older chart had not."""
    prefetch = ("cache.prefetch.enabled=true",)
    assert "RPD730" not in codes(planned("image.tag=other", before=prefetch))
    old, new = paper.rendered(*prefetch), paper.rendered(*prefetch, "image.tag=other")
    for side in (old, new):
        for manifest in side.manifests:
            if manifest["kind"] == "Job":
                manifest["metadata"]["name"] = manifest["metadata"]["name"].rpartition("-")[0]
    refused = [f for f in make("test", old, new).findings if f.code == "RPD730"]
    assert [f.severity for f in refused] == ["error", "error"]
    assert all("kubectl delete job" in finding.remedy for finding in refused)


CLAIM = ("cache.type=persistentVolumeClaim", "cache.persistentVolumeClaim.storageClassName=efs")


@pytest.mark.parametrize(("keep", "expected"), [("true", []), ("false", ["RPD731"])])
def test_a_claim_that_goes_takes_its_data_along(keep: str, expected: list[str]) -> None:
    before = (*CLAIM, f"cache.persistentVolumeClaim.keep={keep}")
    plan = make("test", paper.rendered(*before), paper.rendered())
    assert [code for code in codes(plan) if code.startswith("RPD73")] == expected


def test_a_claim_of_another_class_is_refused() -> None:
    plan = planned("cache.persistentVolumeClaim.storageClassName=fsx", before=CLAIM)
    assert codes(plan) == ["RPD730"]
    grown = planned("cache.persistentVolumeClaim.size=900Gi", before=CLAIM)
    assert codes(grown) == []


def test_another_token_reaches_no_running_pod_and_is_not_shown() -> None:
    old, new = "hf_" + "a" * 34, "hf_" + "b" * 34
    plan = planned(f"huggingface.token={new}", before=(f"huggingface.token={old}",))
    assert codes(plan) == ["RPD732"]
    said = yaml.safe_dump(plan.as_json())
    assert "hidden" in said
    for secret in (old, new):
        assert secret not in said


def test_versions_are_told() -> None:
    plan = planned("image.rayVersion=2.57.1", "image.vllmVersion=0.25.1", "image.tag=old")
    assert ("Ray", "2.58.0", "2.57.1") in plan.versions
    assert any(what == "image of head, prefill, decode" for what, _, _ in plan.versions)


def test_what_the_new_versions_do_otherwise_is_told_of_what_is_used() -> None:
    newer = ("image.rayVersion=2.60.0", "image.vllmVersion=0.29.0", "image.tag=new")
    cross = ("transport.extraConfig.enable_cross_layers_blocks=true",)
    plan = make("test", paper.rendered(*cross), paper.rendered(*newer))
    told = {what: (before, after) for what, before, after in plan.versions}
    key = "enable_cross_layers_blocks (kv_connector_extra_config)"
    assert told[key] == ("known", "not known")
    unused = make("test", paper.rendered(), paper.rendered(*newer))
    assert not any("enable_cross_layers_blocks" in what for what, _, _ in unused.versions)


def test_a_change_of_the_strategy_alone_restarts_nothing() -> None:
    plan = make("test", paper.rendered(), paper.rendered(*SPARE))
    assert (plan.kind, codes(plan)) == ("in place", [])


def test_the_incremental_strategy_takes_a_feature_gate() -> None:
    before, after = paper.rendered(), paper.rendered("image.tag=other")
    after.rayservice["spec"]["upgradeStrategy"]["type"] = "NewClusterWithIncrementalUpgrade"
    plan = make("test", before, after)
    assert plan.kind == "second cluster"
    assert "feature gate" in plan.requests
    after.rayservice["spec"]["upgradeStrategy"]["type"] = "Typo"
    assert codes(make("test", before, after)) == ["RPD725"]


def shuffled(value: Any) -> Any:
    """With the keys of every mapping the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(inner) for inner in value] if isinstance(value, list) else value


def test_the_order_of_keys_is_no_change() -> None:
    one = paper.rendered()
    manifests = shuffled(copy.deepcopy(one.manifests))
    (rayservice,) = (m for m in manifests if m["kind"] == "RayService")
    config = yaml_text.load(rayservice["spec"]["serveConfigV2"])
    rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(shuffled(config), sort_keys=False)
    other = Rendered("", manifests, rayservice, config)
    assert make("test", one, other).kind == "nothing"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    JSON,
    st.sampled_from(
        [
            "metadata",
            "spec",
            "spec|upgradeStrategy",
            "spec|serveConfigV2",
            "spec|serveService",
            "spec|rayClusterConfig",
            "spec|rayClusterConfig|headGroupSpec",
            "spec|rayClusterConfig|headGroupSpec|template|spec|containers",
            "spec|rayClusterConfig|workerGroupSpecs",
            "spec|rayClusterConfig|workerGroupSpecs|0",
            "spec|rayClusterConfig|workerGroupSpecs|1|template",
            "spec|rayClusterConfig|workerGroupSpecs|1|template|spec|containers|0|env",
            "spec|rayClusterConfig|workerGroupSpecs|1|template|spec|containers|0|resources|limits",
            "spec|rayClusterConfig|workerGroupSpecs|1|replicas",
            "config|applications",
            "config|applications|0",
            "config|applications|0|args",
            "config|applications|0|args|decode_config",
            "config|applications|0|deployments",
            "config|applications|0|deployments|1",
        ]
    ),
)
def test_any_shape_gives_a_plan(value: Any, place: str) -> None:
    other = paper.rendered()
    config = other.serve_config
    node: Any = {"config": config, **other.rayservice}
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("|"))
    for part in parents:
        node = node[part]
    node[last] = value
    rayservice = other.rayservice
    if place == "metadata":
        rayservice["metadata"] = value
    elif place == "spec":
        rayservice["spec"] = value
    elif place.startswith("config"):
        rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(config)
    odd = Rendered("", other.manifests, rayservice, config)
    for one, two in ((paper.rendered(), odd), (odd, paper.rendered()), (odd, odd)):
        plan = make("test", one, two)
        assert plan.as_json()["verdict"]["sentences"]
    assert make("test", odd, odd).kind == "nothing"
