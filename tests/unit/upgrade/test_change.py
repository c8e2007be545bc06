"""What an upgrade does to what runs: KubeRay's and Ray Serve's rules, on the chart's own renders."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from raypd.render import Rendered
from raypd.upgrade.change import Change, change, describe, resize
from unit.live import paper

SPARE = ("upgrade.strategy=NewCluster", "upgrade.spareCapacity=true")


def running(rendered: Rendered) -> dict[str, Any]:
    """The RayCluster that KubeRay makes of a render, as the API server and Go write it back."""
    spec = copy.deepcopy(rendered.rayservice["spec"]["rayClusterConfig"])
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        for container in group["template"]["spec"]["containers"]:
            for port in container["ports"]:
                port["protocol"] = "TCP"  # the CRD's default
            container["resources"]["requests"]["cpu"] = container["resources"]["requests"][
                "cpu"
            ].replace("16", "16000m")
    for group in spec["workerGroupSpecs"]:
        group["scaleStrategy"] = {}
    metadata = {"name": "llm-x7x", "namespace": "inference", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": spec}


def upgraded(
    before: tuple[str, ...], after: tuple[str, ...], schema: dict[str, Any] | None = None
) -> tuple[Change, list[str]]:
    old, new = paper.rendered(*before), paper.rendered(*after)
    found = change(schema or paper.schema(), new.rayservice, old.rayservice, running(old))
    return found, describe(found, new.rayservice)


def test_the_same_values_change_nothing() -> None:
    found, lines = upgraded((), ())
    assert found == Change(replaces=False)
    assert lines == [
        "Pods: stay; nothing in their templates changes.",
        "Engines: stay; the serve config is the same.",
    ]


def test_an_image_starts_a_second_cluster_where_there_is_room_for_it() -> None:
    found, lines = upgraded(SPARE, (*SPARE, "image.tag=other"))
    assert found.new_cluster
    assert len(found.pods) == 3  # the containers of the head and of both roles
    assert "a second Ray cluster" in lines[0]


def test_an_image_waits_under_the_strategy_none() -> None:
    found, lines = upgraded((), ("image.tag=other",))
    assert not found.new_cluster
    assert len(found.kept_back) == 3
    assert "delete raycluster -l ray.io/originated-from-cr-name=llm-ray-pd-llm" in lines[0]


def test_a_number_of_replicas_is_handed_on_and_engines_stay() -> None:
    found, lines = upgraded((), ("prefill.replicas=2",))
    assert (found.pods, found.rebuilt, found.adjusted) == ([], [], ["llm"])
    assert {(r.group, r.key, r.before, r.after) for r in found.resized} == {
        ("prefill", key, 1, 2) for key in ("replicas", "minReplicas", "maxReplicas")
    }
    assert any("Group prefill: replicas 1 -> 2" in line for line in lines)


def test_an_engine_argument_is_applied_in_place() -> None:
    found, lines = upgraded((), ("decode.maxNumSeqs=8",))
    assert (found.pods, found.resized, found.rebuilt) == ([], [], ["llm"])
    assert "Ray Serve replaces" in lines[1]


def test_another_route_rebuilds_nothing() -> None:
    found, lines = upgraded((), ("endpoint.routePrefix=/llm",))
    assert (found.rebuilt, found.adjusted) == ([], ["llm"])
    assert "stay" in lines[1]


def test_tolerations_reach_no_running_pod() -> None:
    found, lines = upgraded((), ("prefill.tolerations[0].operator=Exists",))
    assert found.pods == []
    assert found.tolerations
    assert "Tolerations" in lines[-1]


def test_the_service_is_written_once() -> None:
    found, lines = upgraded((), ("endpoint.service.type=NodePort",))
    assert [one.path for one in found.service_kept] == ["serveService.spec.type"]
    assert lines[-1].startswith("Service: stays as it is")
    second, _ = upgraded(
        SPARE, (*SPARE, "image.tag=x", "endpoint.service.type=NodePort", "commonAnnotations.a=b")
    )
    # Of a new cluster it takes the spec, and no metadata.
    assert [o.path for o in second.service_kept] == ["serveService.metadata.annotations"]


def test_another_name_is_another_rayservice() -> None:
    found, lines = upgraded((), ("fullnameOverride=other",))
    assert (found.renamed, found.new_cluster, found.kept_back) == ("llm-ray-pd-llm", False, [])
    assert lines[0].startswith("Pods: all end. The RayService is other now")


def test_two_renders_are_compared_without_a_crd() -> None:
    old, new = paper.rendered(), paper.rendered("image.tag=other")
    found = change(None, new.rayservice, old.rayservice)
    assert (found.known, len(found.pods)) == (True, 3)


def test_what_is_in_no_configs_place_is_told() -> None:
    old, new = paper.rendered(), paper.rendered()
    config = new.serve_config
    config["http_options"] = {"port": 9000}
    config["applications"][0]["deployments"][1].pop("max_ongoing_requests")
    new.rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(config)
    lines = describe(change(None, new.rayservice, old.rayservice), new.rayservice)
    assert any("goes on with what is taken out" in line for line in lines)
    assert any("reads http_options at its start only" in line for line in lines)


def test_engines_of_one_deployment_alone() -> None:
    old, new = paper.rendered(), paper.rendered()
    new.serve_config["applications"][0]["deployments"][2]["ray_actor_options"] = {"num_cpus": 2}
    new.rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(new.serve_config)
    found = change(None, new.rayservice, old.rayservice)
    assert "replaces those of Decode:qwen3_5-9b in place" in describe(found, new.rayservice)[1]


def test_a_group_at_the_end_is_added_in_place() -> None:
    old, new = paper.rendered(), paper.rendered()
    groups = new.rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    groups.append({**copy.deepcopy(groups[0]), "groupName": "extra"})
    found = change(paper.schema(), new.rayservice, old.rayservice, running(old))
    assert (found.pods, found.added_groups) == ([], ["extra"])


def test_a_group_less_is_another_cluster() -> None:
    found, _ = upgraded(SPARE, (*SPARE, "topology.mode=aggregated", "cache.type=emptyDir"))
    assert found.new_cluster


def test_without_the_crd_nothing_is_said_of_pods() -> None:
    old, new = paper.rendered(), paper.rendered("image.tag=other")
    found = change(None, new.rayservice, old.rayservice, running(old))
    assert not found.known
    assert "cannot tell" in describe(found, new.rayservice)[0]


def test_the_numbers_are_written_into_the_groups_that_are_there() -> None:
    cluster = running(paper.rendered())
    config = paper.rendered("decode.replicas=3").rayservice["spec"]["rayClusterConfig"]
    manifest = resize(config, cluster)
    assert manifest is not None
    assert manifest["metadata"]["resourceVersion"] == "7"
    prefill, decode = manifest["spec"]["workerGroupSpecs"]
    assert (decode["replicas"], decode["maxReplicas"]) == (3, 3)
    assert prefill == cluster["spec"]["workerGroupSpecs"][0]
    assert resize(config, {**cluster, "spec": manifest["spec"]}) is None


def test_a_group_loses_the_pods_that_hold_no_engine_and_not_before_they_are_known() -> None:
    cluster = running(paper.rendered("prefill.replicas=4"))
    config = paper.rendered("prefill.replicas=2", "decode.replicas=3").rayservice["spec"][
        "rayClusterConfig"
    ]
    first = resize(config, cluster)
    assert first is not None
    prefill, decode = first["spec"]["workerGroupSpecs"]
    assert (prefill["replicas"], decode["replicas"]) == (4, 3)
    cluster["spec"] = first["spec"]
    then = resize(config, cluster, {"prefill": ["p3", "p1"]})
    assert then is not None
    prefill = then["spec"]["workerGroupSpecs"][0]
    assert [prefill[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    assert prefill["scaleStrategy"] == {"workersToDelete": ["p3", "p1"]}
    cluster["spec"] = then["spec"]
    assert resize(config, cluster) is None


def test_replicas_are_the_autoscalers_where_it_runs() -> None:
    scaled = ("decode.autoscaling.enabled=true", "decode.autoscaling.maxReplicas=4")
    cluster = running(paper.rendered("decode.autoscaling.enabled=true"))
    cluster["spec"]["workerGroupSpecs"][1]["replicas"] = 2
    config = paper.rendered(*scaled).rayservice["spec"]["rayClusterConfig"]
    manifest = resize(config, cluster)
    assert manifest is not None
    decode = manifest["spec"]["workerGroupSpecs"][1]
    assert (decode["replicas"], decode["maxReplicas"]) == (2, 4)
