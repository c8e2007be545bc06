"""Pods that wait for a node: the scheduler's sentence with names and reasons."""

from __future__ import annotations

from raypd.live.diagnosis import diagnose
from unit.live.sample import (
    EFA_PLUGIN,
    changed,
    event,
    gpu_node,
    node,
    parse,
    pending,
    plugin,
    pod,
    rayservice,
    serve,
    snapshot,
)

LOADING = rayservice(ready=False)
NO_EFA = (
    "0/3 nodes are available: 1 Insufficient vpc.amazonaws.com/efa, 1 node(s) didn't match pod "
    "anti-affinity rules, 1 node(s) didn't match Pod's node affinity/selector. no new claims to "
    "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)


def without_efa(name):
    return node(name, "gpu-worker", **{"nvidia.com/gpu": 1})


def only(**changes):
    """The one finding while decode waits for a node."""
    whole = {
        "rayservice": LOADING,
        "pods": [pod("head"), pod("prefill"), pending("decode", NO_EFA)],
        "serve": serve("DEPLOYING"),
        "neighbours": [pod("head"), pod("prefill")],
    }
    (finding,) = diagnose(snapshot(**{**whole, **changes}))
    return finding


def tainted(item, taint):
    return changed(item, f"spec: {{taints: [{taint}]}}")


def test_no_efa_because_the_plugin_does_not_tolerate_a_taint():
    gpu_b = tainted(
        without_efa("gpu-b"), "{key: nvidia.com/gpu, value: present, effect: NoSchedule}"
    )
    finding = only(
        nodes=[node("system", "system"), gpu_node("gpu-a"), gpu_b],
        daemonsets=[
            plugin("nvidia-device-plugin-daemonset", "nvidia.com/gpu"),
            plugin(EFA_PLUGIN, "aws.amazon.com/efa", ready=1),
        ],
    )
    assert finding.code == "RPD610"
    assert finding.path == "pod inference/llm-ray-pd-llm-x7k2p-decode-worker-2dnjc"
    assert (
        "gpu-b offers none of 1 vpc.amazonaws.com/efa, because the DaemonSet "
        f"kube-system/{EFA_PLUGIN} wants no pod there: it does not tolerate the taint "
        "nvidia.com/gpu=present:NoSchedule" in finding.message
    )
    assert "gpu-a has llm-ray-pd-llm-x7k2p-prefill" in finding.message
    assert NO_EFA in finding.message
    assert "toleration" in finding.remedy


def test_no_efa_because_the_plugin_selects_other_types():
    picky = plugin(EFA_PLUGIN)
    picky["spec"]["template"]["spec"]["affinity"] = parse("""
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: node.kubernetes.io/instance-type
                    operator: In
                    values: [p4d.24xlarge, p5.48xlarge]
    """)
    finding = only(nodes=[gpu_node("gpu-a"), without_efa("gpu-b")], daemonsets=[picky])
    assert finding.code == "RPD610"
    assert "instance-type In p4d.24xlarge, p5.48xlarge" in finding.message


def test_no_plugin_at_all():
    finding = only(nodes=[gpu_node("gpu-a"), without_efa("gpu-b")], daemonsets=[])
    assert "no device plugin for vpc.amazonaws.com/efa is in the cluster" in finding.message
    assert "aws-efa-k8s-device-plugin" in finding.remedy


def test_a_plugin_that_is_there_and_announces_nothing():
    finding = only(nodes=[gpu_node("gpu-a"), without_efa("gpu-b")])
    assert f"DaemonSet kube-system/{EFA_PLUGIN} wants a pod there" in finding.message


def test_daemonsets_that_one_may_not_see_are_not_missed():
    finding = only(
        nodes=[gpu_node("gpu-a"), without_efa("gpu-b")],
        daemonsets=[],
        unseen={"DaemonSets": "forbidden"},
    )
    assert "offers none" in finding.message
    assert "because" not in finding.message


def test_a_node_that_has_just_come_is_given_time():
    fresh = changed(without_efa("gpu-b"), "metadata: {creationTimestamp: '2026-03-01T11:59:00Z'}")
    whole = snapshot(
        rayservice=LOADING,
        pods=[pod("head"), pod("prefill"), pending("decode", NO_EFA)],
        serve=serve("DEPLOYING"),
        nodes=[gpu_node("gpu-a"), fresh],
    )
    assert diagnose(whole) == []


def test_a_gpu_that_a_stranger_holds():
    stranger = changed(pod("decode"), "metadata: {name: notebook, namespace: research}")
    words = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        neighbours=[pod("head"), pod("prefill"), stranger],
    )
    assert finding.code == "RPD611"
    assert "gpu-b has 1 of 1 nvidia.com/gpu, 1 of 1 vpc.amazonaws.com/efa" in finding.message
    assert "taken by research/notebook" in finding.message


def test_what_ends_makes_room_soon():
    ends = changed(
        pod("decode"),
        "metadata: {name: old, namespace: research, deletionTimestamp: '2026-03-01T12:01:00Z'}",
    )
    whole = snapshot(
        rayservice=LOADING,
        pods=[pod("head"), pod("prefill"), pending("decode", "0/3 nodes are available: ...")],
        serve=serve("DEPLOYING"),
        neighbours=[pod("prefill"), ends],
    )
    assert diagnose(whole) == []


def test_a_second_cluster_without_a_second_set_of_gpus():
    upgrading = changed(
        rayservice(), "status: {pendingServiceStatus: {rayClusterName: llm-ray-pd-llm-new}}"
    )
    new = changed(
        pending("prefill", "0/3 nodes are available: 2 Insufficient nvidia.com/gpu"),
        "metadata: {name: new-prefill, labels: {ray.io/cluster: llm-ray-pd-llm-new}}",
    )
    pods = [pod("head"), pod("prefill"), pod("decode")]
    finding = only(rayservice=upgrading, pods=[*pods, new], neighbours=pods, serve=serve())
    assert finding.code == "RPD611"
    assert "upgrade.strategy None" in finding.remedy


def test_roles_apart_on_a_single_gpu_node():
    words = "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        nodes=[node("system", "system"), gpu_node("gpu-a")],
    )
    assert finding.code == "RPD613"
    assert "from which it has to stay apart" in finding.message
    assert "taken" not in finding.message


def test_no_node_of_that_type():
    other = changed(
        gpu_node("gpu-b"), "metadata: {labels: {node.kubernetes.io/instance-type: g6.4xlarge}}"
    )
    words = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    finding = only(
        pods=[pod("head"), pending("prefill", words), pending("decode", words)],
        nodes=[node("system", "system"), other],
    )
    assert finding.code == "RPD612"
    assert "none is node.kubernetes.io/instance-type=g6.8xlarge" in finding.message
    assert "g6.4xlarge" in finding.message
    assert "<role>.instanceType" in finding.remedy


def test_zone_of_the_other_engines():
    far = changed(
        gpu_node("gpu-b"), "metadata: {labels: {topology.kubernetes.io/zone: us-west-2c}}"
    )
    words = "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        nodes=[gpu_node("gpu-a"), far],
    )
    assert finding.code == "RPD617"
    assert "us-west-2c" in finding.message


def test_a_taint_that_is_not_tolerated():
    gpu_b = tainted(gpu_node("gpu-b"), "{key: team, value: research, effect: NoSchedule}")
    words = "0/3 nodes are available: 1 node(s) had untolerated taint(s), ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        nodes=[gpu_node("gpu-a"), gpu_b],
    )
    assert finding.code == "RPD614"
    assert "team=research:NoSchedule" in finding.message


def test_a_cordoned_node():
    gpu_b = tainted(
        gpu_node("gpu-b"), "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}"
    )
    words = "0/3 nodes are available: 1 node(s) were unschedulable, ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        nodes=[gpu_node("gpu-a"), gpu_b],
    )
    assert finding.code == "RPD616"
    assert "gpu-b is cordoned" in finding.message


def test_more_memory_than_a_node_has():
    small = changed(gpu_node("gpu-b"), "status: {allocatable: {memory: 60Gi}}")
    words = "0/3 nodes are available: 1 Insufficient memory, ..."
    finding = only(
        pods=[pod("head"), pod("prefill"), pending("decode", words)],
        nodes=[gpu_node("gpu-a"), small],
    )
    assert finding.code == "RPD610"
    assert "offers 60.0 GiB of 96.2 GiB memory" in finding.message or "96.0 GiB" in finding.message
    assert "decode.resources.memory" in finding.remedy


def test_nodes_that_one_may_not_see_leave_the_schedulers_words():
    finding = only(nodes=[], unseen={"nodes": "forbidden"})
    assert finding.code == "RPD618"
    assert NO_EFA in finding.message


def test_a_node_is_being_made():
    waits = pending("decode", NO_EFA)
    ordered = event("Pod", waits, "TriggeredScaleUp", "pod triggered scale-up: [{gpu 1->2}]")
    whole = {
        "rayservice": LOADING,
        "pods": [pod("head"), pod("prefill"), waits],
        "serve": serve("DEPLOYING"),
        "nodes": [node("system", "system"), gpu_node("gpu-a")],
    }
    assert diagnose(snapshot(**whole, events=[ordered])) == []
    long_ago = {**ordered, "lastTimestamp": "2026-03-01T11:30:00Z"}
    assert [f.code for f in diagnose(snapshot(**whole, events=[long_ago]))] == ["RPD613"]


def test_equal_troubles_of_several_pods_are_one_finding():
    words = "0/1 nodes are available: 1 Insufficient vpc.amazonaws.com/efa."
    waits = [
        changed(pending("decode", words), f"metadata: {{name: decode-{n}, uid: u{n}}}")
        for n in range(5)
    ]
    finding = only(pods=[pod("head"), *waits], nodes=[without_efa("gpu-b")], daemonsets=[])
    assert finding.path == (
        "pod inference/decode-0, pod inference/decode-1, pod inference/decode-2 and 2 more"
    )


def test_a_node_that_stopped_answering():
    gone = changed(
        gpu_node("gpu-b"),
        """
        status:
          conditions:
            - type: Ready
              status: Unknown
              reason: NodeStatusUnknown
              message: Kubelet stopped posting node status.
              lastTransitionTime: "2026-03-01T11:55:00Z"
        """,
    )
    (finding,) = diagnose(snapshot(nodes=[node("system", "system"), gpu_node("gpu-a"), gone]))
    assert finding.code == "RPD616"
    assert "Kubelet stopped posting node status." in finding.message


def test_hundreds_of_nodes_stay_readable():
    nodes = [without_efa(f"gpu-{n}") for n in range(300)]
    finding = only(nodes=nodes, pods=[pod("head"), pending("decode", NO_EFA)], daemonsets=[])
    assert "gpu-0, gpu-1, gpu-2 and 297 more" in finding.message
    assert len(finding.message) < 1000
