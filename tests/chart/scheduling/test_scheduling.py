"""Where pods may run."""

from __future__ import annotations

import pytest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_engines_go_to_their_instance_type_and_the_head_to_the_system_nodes(render):
    pods = render.pods()
    assert pods["head"]["nodeSelector"] == {"role": "system"}
    for role in ("prefill", "decode"):
        assert pods[role]["nodeSelector"] == {
            "role": "gpu-worker",
            "node.kubernetes.io/instance-type": "g6.8xlarge",
        }


@pytest.mark.parametrize(
    ("zone", "label"),
    [("us-east-1a", "topology.kubernetes.io/zone"), ("use1-az4", "topology.k8s.aws/zone-id")],
)
def test_zone_pin(render, zone, label):
    pods = render.pods({"placement": {"zone": zone}})
    assert pods["prefill"]["nodeSelector"][label] == pods["decode"]["nodeSelector"][label] == zone
    assert label not in pods["head"]["nodeSelector"]


def test_a_selector_can_be_dropped(render):
    pods = render.pods(
        {"decode": {"nodeSelector": {"role": None, "pool": "big"}, "instanceType": ""}}
    )
    assert pods["decode"]["nodeSelector"] == {"pool": "big"}


def test_one_zone_for_all_engines_and_no_node_for_both_roles(render):
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        affinity = render.pods()[role]["affinity"]
        (near,) = affinity["podAffinity"][REQUIRED]
        assert near["topologyKey"] == "topology.kubernetes.io/zone"
        assert near["labelSelector"]["matchExpressions"][0]["values"] == ["prefill", "decode"]
        (apart,) = affinity["podAntiAffinity"][REQUIRED]
        assert apart["topologyKey"] == "kubernetes.io/hostname"
        assert apart["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == other


def test_selectors_match_the_pods_they_mean(render):
    groups = render.groups()
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        (apart,) = groups[role]["template"]["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
        wanted = apart["labelSelector"]["matchLabels"].items()
        assert wanted <= groups[other]["template"]["metadata"]["labels"].items()
        assert not wanted <= groups[role]["template"]["metadata"]["labels"].items()


def test_the_users_affinity_is_added(render):
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    node = {
        REQUIRED: {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
        }
    }
    values = {"decode": {"affinity": {"nodeAffinity": node, "podAntiAffinity": {REQUIRED: [term]}}}}
    affinity = render.pods(values)["decode"]["affinity"]
    assert affinity["nodeAffinity"] == node
    assert (
        len(affinity["podAntiAffinity"][REQUIRED]) == 2
        and term in affinity["podAntiAffinity"][REQUIRED]
    )


def test_placement_can_be_relaxed_over_tcp(render):
    values = {
        "transport": {"fabric": "tcp"},
        "cache": {"type": "emptyDir"},
        "placement": {"sameZone": False, "rolesApart": False},
    }
    assert "affinity" not in render.pods(values)["prefill"]


def test_default_tolerations_fit_the_shipped_taint(render):
    tolerations = render.pods()["prefill"]["tolerations"]
    assert {
        "key": "aws.amazon.com/efa",
        "operator": "Exists",
        "effect": "NoSchedule",
    } in tolerations
    assert "tolerations" not in render.pods()["head"]
    assert "tolerations" not in render.pods({"prefill": {"tolerations": None}})["prefill"]


def test_disruption_budget_per_active_role(render):
    budgets = {b["metadata"]["name"]: b for b in render.kind("PodDisruptionBudget")}
    assert set(budgets) == {"llm-ray-pd-llm-prefill", "llm-ray-pd-llm-decode"}
    labels = render.groups()["decode"]["template"]["metadata"]["labels"]
    budget = budgets["llm-ray-pd-llm-decode"]["spec"]
    assert budget["minAvailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    off = {"prefill": {"podDisruptionBudget": {"enabled": False}}}
    assert len(render.kind("PodDisruptionBudget", off)) == 1


def test_disruption_budget_counts_pods_that_stay(render):
    """Pods of a RayCluster can have no maxUnavailable: it has no scale subresource."""
    for maximum, stay in ((0, 3), (1, 2), (5, 0)):
        values = {"prefill": {"replicas": 3, "podDisruptionBudget": {"maxUnavailable": maximum}}}
        prefill = render.kind("PodDisruptionBudget", values)
        specs = {b["metadata"]["name"]: b["spec"] for b in prefill}
        assert specs["llm-ray-pd-llm-prefill"]["minAvailable"] == stay
        assert "maxUnavailable" not in specs["llm-ray-pd-llm-prefill"]
