"""The scheduler's rules, node by node."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis.fit import not_wanted, obstacles
from unit.live.sample import changed, gpu_node, node, parse, plugin, pod, snapshot


def kinds(found):
    return [obstacle.kind for obstacle in found]


def free(**changes):
    """Decode's pod without a node, in a cluster where nothing else is."""
    made = pod("decode")
    del made["spec"]["nodeName"]
    return made, snapshot(pods=[made], **changes)


def test_a_pod_that_fits():
    made, whole = free()
    assert obstacles(made, gpu_node("gpu-b"), whole) == []


def test_every_obstacle_is_told():
    made, whole = free()
    wrong = changed(node("x", "system"), "spec: {taints: [{key: a, value: b, effect: NoSchedule}]}")
    found = obstacles(made, wrong, whole)
    assert set(kinds(found)) == {"labels", "taint", "absent"}
    assert {o.what for o in found if o.kind == "absent"} == {
        "nvidia.com/gpu",
        "vpc.amazonaws.com/efa",
    }


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ("{operator: Exists}", True),
        ("{key: a, operator: Exists}", True),
        ("{key: a, operator: Equal, value: b}", True),
        ("{key: a, value: b, effect: NoSchedule}", True),
        ("{key: a, value: c}", False),
        ("{key: b, operator: Exists}", False),
        ("{key: a, operator: Exists, effect: NoExecute}", False),
    ],
)
def test_tolerations(toleration, fits):
    made, whole = free()
    made["spec"]["tolerations"] = parse(f"[{toleration}]")
    tainted = changed(gpu_node("gpu-b"), "spec: {taints: [{key: a, value: b, effect: NoSchedule}]}")
    assert kinds(obstacles(made, tainted, whole)) == ([] if fits else ["taint"])


def test_a_preference_is_no_obstacle():
    made, whole = free()
    soft = changed(gpu_node("gpu-b"), "spec: {taints: [{key: a, effect: PreferNoSchedule}]}")
    assert obstacles(made, soft, whole) == []


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ("{key: role, operator: In, values: [gpu-worker]}", True),
        ("{key: role, operator: NotIn, values: [gpu-worker]}", False),
        ("{key: nowhere, operator: NotIn, values: [x]}", True),
        ("{key: nowhere, operator: Exists}", False),
        ("{key: nowhere, operator: DoesNotExist}", True),
        ("{key: generation, operator: Gt, values: ['5']}", True),
        ("{key: generation, operator: Lt, values: ['5']}", False),
        ("{key: role, operator: Gt, values: ['5']}", False),
    ],
)
def test_node_affinity(expression, fits):
    made, whole = free()
    made["spec"]["affinity"] = parse(f"""
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]
    """)
    labelled = changed(gpu_node("gpu-b"), "metadata: {labels: {generation: '6'}}")
    assert kinds(obstacles(made, labelled, whole)) == ([] if fits else ["labels"])


def test_the_first_engine_may_go_to_any_zone():
    made, whole = free()
    far = changed(gpu_node("gpu-b"), "metadata: {labels: {topology.kubernetes.io/zone: elsewhere}}")
    assert obstacles(made, far, whole) == []


def test_daemonsets_tolerate_what_kubernetes_taints_by_itself():
    cordoned = changed(
        gpu_node("gpu-b"),
        """
        spec:
          taints:
            - {key: node.kubernetes.io/unschedulable, effect: NoSchedule}
            - {key: node.kubernetes.io/not-ready, effect: NoExecute}
        """,
    )
    assert not_wanted(plugin("x"), cordoned) == []
