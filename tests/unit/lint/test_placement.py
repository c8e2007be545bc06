"""Room in Ray's books: each rule kept by the sample, broken once."""

from __future__ import annotations

import pytest

from unit.lint.sample import ABSENT, Break, Sample

APP = "spec.serveConfigV2.applications[0]"
PREFILL = f"{APP}.args.prefill_config"
DECODE = f"{APP}.args.decode_config"
CPU = "template|spec|containers|0|resources|requests|cpu"
GPU = "template|spec|containers|0|resources|limits|nvidia.com/gpu"

BROKEN: list[tuple[str, str, Break]] = [
    (
        "RPD370",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("group1:rayStartParams|resources", '"{\\"decoder\\": 1}"'),
    ),
    (
        "RPD371",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("group0:rayStartParams|resources", '"{\\"prefill\\": 1, \\"decode\\": 1}"'),
    ),
    (
        "RPD372",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("decode:placement_group_config|bundles", [{"CPU": 1, "GPU": 1}]),
    ),
    (
        "RPD373",
        f"{DECODE}.deployment_config",
        lambda s: s.put("decode:placement_group_config|bundles", [{"GPU": 1, "decode": 2}]),
    ),
    (
        "RPD374",
        f"{DECODE}.deployment_config",
        lambda s: s.put(f"group1:{CPU}", "1500m").put(
            "decode:placement_group_config|bundles", [{"CPU": 2, "GPU": 1, "decode": 1}]
        ),
    ),
    ("RPD375", f"{DECODE}.deployment_config", lambda s: s.put(f"group1:{GPU}", ABSENT)),
    (
        "RPD376",
        f"{APP}.args.ingress_deployment_config",
        lambda s: s.put(f"group0:{CPU}", "2").put(f"group1:{CPU}", "2"),
    ),
    (
        "RPD377",
        f"{DECODE}.deployment_config",
        lambda s: s.put(
            "decode:deployment_config",
            {"autoscaling_config": {"min_replicas": 1, "max_replicas": 3}},
        ),
    ),
    (
        "RPD378",
        "spec.rayClusterConfig.headGroupSpec.rayStartParams.num-cpus",
        lambda s: s.put("head:rayStartParams|num-cpus", ABSENT),
    ),
    (
        "RPD379",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("decode:engine_kwargs|tensor_parallel_size", 2),
    ),
    (
        "RPD379",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("decode:placement_group_config|bundles", [{"GPU": 2, "decode": 1}]),
    ),
]


@pytest.mark.parametrize(("code", "path", "break_"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_found_at_its_place(code: str, path: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert path in [finding.path for finding in sample.findings(code)]


def test_a_replicas_own_cpu_comes_on_top_of_its_bundle() -> None:
    """Bundle {CPU: 1} and the replica's 1 need a pod of 2; a third is for the ingress."""
    sample = Sample().put(f"group1:{CPU}", "2")
    assert sample.findings() == []
    sample.put(f"group1:{CPU}", "1")
    assert [finding.code for finding in sample.findings()] == ["RPD374"]


@pytest.mark.parametrize(
    ("deployment", "codes"),
    [
        ({"name": "Decode:MODEL", "num_replicas": 3}, ["RPD375"]),
        ({"name": "Decode:MODEL", "num_replicas": 1}, []),
        ({"name": "Decode:MODEL", "autoscaling_config": {"max_replicas": 3}}, ["RPD377"]),
        ({"name": "OpenAiIngress", "num_replicas": 100}, ["RPD376"]),
    ],
)
def test_numbers_of_replicas_in_the_applications_deployments_count(deployment, codes) -> None:
    sample = Sample()
    model = sample.decode["model_loading_config"]["model_id"].replace(".", "_")
    named = {**deployment, "name": deployment["name"].replace("MODEL", model)}
    sample.put("application:deployments", [named])
    assert [finding.code for finding in sample.findings()] == codes


def test_an_ingress_without_cpu_needs_no_room() -> None:
    sample = Sample().put(f"group0:{CPU}", "2").put(f"group1:{CPU}", "2")
    sample.put("args:ingress_deployment_config|ray_actor_options", {"num_cpus": 0})
    assert sample.findings() == []


def test_what_is_short_is_named_with_the_numbers() -> None:
    sample = Sample().put("group1:replicas", 1).put("group1:minReplicas", 1)
    (finding,) = sample.findings()
    assert finding.code == "RPD375"
    assert "Replica 2 of 2" in finding.message
    assert "1 pod(s) with 16 CPU, 1 GPU, 1 decode" in finding.message


def test_the_autoscaler_may_add_pods_up_to_the_groups_maximum() -> None:
    sample = Sample().put("cluster:enableInTreeAutoscaling", True)
    sample.put("decode:deployment_config", {"autoscaling_config": {"max_replicas": 3}})
    assert [finding.code for finding in sample.findings()] == ["RPD377"]
    sample.put("group1:maxReplicas", 3)
    assert sample.findings() == []


def test_one_replica_over_two_pods_is_packed_across_them() -> None:
    """tensor 2 x pipeline 2 on two pods with two GPUs each, once."""
    sample = Sample()
    sample.prefill["engine_kwargs"].pop("kv_transfer_config")
    sample.put("application:import_path", "ray.serve.llm:build_openai_app")
    sample.application["args"] = {"llm_configs": [sample.prefill]}
    config = sample.prefill_of_aggregated()
    config["engine_kwargs"] |= {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    config["deployment_config"] = {"num_replicas": 1}
    config["placement_group_config"] = {
        "bundle_per_worker": {"CPU": 1, "GPU": 1, "prefill": 1},
        "strategy": "PACK",
    }
    sample.put("group0:rayStartParams|resources", '"{\\"prefill\\": 2}"').put(f"group0:{GPU}", 2)
    sample.put(f"group0:{GPU.replace('limits', 'requests')}", 2)
    assert sample.findings() == []
    config["placement_group_config"]["strategy"] = "STRICT_PACK"
    assert [finding.code for finding in sample.findings()] == ["RPD375"]


def test_cpus_are_what_kubernetes_limits_say_before_requests() -> None:
    sample = Sample().put("group1:template|spec|containers|0|resources|limits|cpu", "1")
    assert [finding.code for finding in sample.findings()] == ["RPD374"]
    sample.put("group1:rayStartParams|num-cpus", "4")
    assert sample.findings() == []
