"""Each precondition on a cluster that lacks one thing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from raypd.live.install.facts import Permission
from raypd.live.install.preconditions import Case, check
from raypd.render import Rendered
from raypd.report import Finding
from unit.live import paper

CLAIM = ("cache.type=persistentVolumeClaim",)
EFS = {"metadata": {"name": "efs"}, "provisioner": "efs.csi.aws.com"}
EBS = {"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com"}
DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
WITH_TOKEN = "huggingface.existingSecret.name=hf-token"
SECRET = ("Secret", "hf-token")


def found(rendered: Rendered | None = None, **changes: Any) -> dict[str, Finding]:
    findings = check(paper.case(rendered or paper.rendered(), **changes)).findings
    assert len({(f.code, f.path) for f in findings}) == len(findings)
    return {finding.code: finding for finding in findings}


def alone(rendered: Rendered | None = None, **changes: Any) -> tuple[str, Finding]:
    ((code, finding),) = found(rendered, **changes).items()
    return code, finding


def test_the_reference_cluster_fits_the_defaults() -> None:
    report = check(paper.case(paper.rendered()))
    assert report.findings == []
    assert report.not_checked == []
    assert len(report.checked) == 1


def test_a_bare_cluster_lacks_crds_and_operator() -> None:
    kinds = {**paper.KINDS, "ray.io/v1": None}
    findings = found(kinds=kinds, crd=None, operators=[])
    assert set(findings) == {"RPD680", "RPD683"}
    assert "--with-operator" in findings["RPD683"].remedy


def test_a_kind_that_the_cluster_does_not_know_is_named() -> None:
    rendered = paper.rendered("monitoring.podMonitor.enabled=true")
    kinds = {**paper.KINDS, "monitoring.coreos.com/v1": None}
    code, finding = alone(rendered, kinds=kinds)
    assert code == "RPD681"
    assert "PodMonitor" in finding.message


def test_a_field_that_the_crd_would_drop_is_named() -> None:
    crd = copy.deepcopy(paper.crd())
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["excludeHeadPodFromServeSvc"]
    code, finding = alone(crd=crd)
    assert code == "RPD682"
    assert finding.path == "spec.excludeHeadPodFromServeSvc"


@pytest.mark.parametrize(
    ("operator", "code"),
    [
        (paper.operator(ready=0), "RPD684"),
        (paper.operator(image="quay.io/kuberay/operator:v1.3.2"), "RPD685"),
        (paper.operator(image="quay.io/kuberay/operator:v1.8.0"), "RPD686"),
        (paper.operator(image="example.org/kuberay/operator@sha256:00"), "RPD686"),
        (paper.operator(args=["--watch-namespace", "ml,test"]), "RPD687"),
    ],
)
def test_an_operator_that_will_not_do(operator: dict[str, Any], code: str) -> None:
    assert alone(operators=[operator])[0] == code


def test_an_operator_that_watches_the_namespace_among_others() -> None:
    operator = paper.operator(args=["--watch-namespace=ml, inference"])
    assert found(operators=[operator]) == {}


def test_an_operator_that_the_network_policy_keeps_out() -> None:
    elsewhere = {"operators": [paper.operator(namespace="default")]}
    code, finding = alone(**elsewhere)
    assert (code, finding.path) == ("RPD689", "networkPolicy.operator")
    assert "is in namespace default" in finding.message
    assert "kubernetes.io/metadata.name: default" in finding.remedy
    peer = "networkPolicy.operator[0].namespaceSelector.matchLabels"
    let_in = paper.rendered(f"{peer}.kubernetes\\.io/metadata\\.name=default")
    assert found(let_in, **elsewhere) == {}
    assert found(paper.rendered("networkPolicy.enabled=false"), **elsewhere) == {}


def test_an_operator_whose_namespace_has_the_label_that_the_policy_wants() -> None:
    peer = "networkPolicy.operator[0].namespaceSelector.matchLabels.team=platform"
    rendered = paper.rendered(peer)
    space = {"metadata": {"name": "ray", "labels": {"team": "platform"}}}
    operators = [paper.operator(namespace="ray")]
    assert found(rendered, operators=operators, operator_space=space) == {}
    assert set(found(rendered, operators=operators)) == {"RPD689"}
    unseen = {"the operator's namespace": "you may not"}
    assert found(rendered, operators=operators, unseen=unseen) == {}


def test_an_unknown_kubernetes_is_a_warning() -> None:
    code, finding = alone(server="v1.40.0")
    assert (code, finding.severity) == ("RPD688", "warning")


def test_a_namespace_that_ends() -> None:
    namespace = {"metadata": {"name": "inference", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert alone(namespace=namespace)[0] == "RPD690"


@pytest.mark.parametrize(
    ("level", "refused"),
    [("baseline", "the capability IPC_LOCK"), ("restricted", "may run as root")],
)
def test_a_pod_security_level_that_refuses_the_engines(level: str, refused: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    code, finding = alone(namespace={"metadata": {"name": "inference", "labels": labels}})
    assert code == "RPD691"
    assert "hostPath" in finding.message
    assert refused in finding.message


def test_a_pod_security_level_that_the_values_meet() -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    rendered = paper.rendered("transport.fabric=tcp", "cache.type=emptyDir")
    assert found(rendered, namespace={"metadata": {"name": "inference", "labels": labels}}) == {}


def test_a_secret_that_is_not_there_and_its_namespace_neither() -> None:
    code, finding = alone(paper.rendered(WITH_TOKEN), objects={SECRET: None}, namespace=None)
    assert code == "RPD692"
    assert finding.remedy.startswith("kubectl create namespace inference; ")
    assert "HF_TOKEN" in finding.remedy
    assert "workerGroupSpecs[0]" in finding.path


def test_a_secret_without_the_key() -> None:
    there = {"metadata": {"name": "hf-token"}, "data": {"token": None}}
    code, finding = alone(paper.rendered(WITH_TOKEN), objects={SECRET: there})
    assert code == "RPD693"
    assert "it has token" in finding.message


def test_a_secret_that_may_not_be_read_is_not_missed() -> None:
    unseen = {"Secret hf-token": "you may not"}
    case = paper.case(paper.rendered(WITH_TOKEN), unseen=unseen)
    report = check(case)
    assert report.findings == []
    assert report.not_checked == ["Secret hf-token: you may not"]


def test_a_claim_for_one_node_and_engines_on_two() -> None:
    rendered = paper.rendered(*CLAIM, "cache.persistentVolumeClaim.existingClaim=weights")
    claim = {"metadata": {"name": "weights"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    objects = {("PersistentVolumeClaim", "weights"): claim}
    assert alone(rendered, objects=objects)[0] == "RPD694"
    claim["spec"]["accessModes"] = ["ReadWriteMany"]
    assert found(rendered, objects=objects) == {}


def claim_on(classes: list[dict[str, Any]], *set_: str, **changes: Any) -> dict[str, Finding]:
    kinds = {**paper.KINDS, "v1": {**(paper.KINDS["v1"] or {})}}
    kinds["v1"]["PersistentVolumeClaim"] = ("persistentvolumeclaims", True)
    drivers = changes.pop("drivers", ["efs.csi.aws.com", "ebs.csi.aws.com"])
    rendered = paper.rendered(*CLAIM, *set_)
    return found(rendered, kinds=kinds, storage_classes=classes, drivers=drivers, **changes)


def test_storage_classes() -> None:
    name = "cache.persistentVolumeClaim.storageClassName"
    assert claim_on([EFS], f"{name}=efs") == {}
    assert set(claim_on([EFS])) == {"RPD695"}  # none is the default
    assert set(claim_on([EBS], f"{name}=efs")) == {"RPD695"}
    assert set(claim_on([EBS], f"{name}=gp3")) == {"RPD696"}  # one node only
    assert set(claim_on([EFS], f"{name}=efs", drivers=[])) == {"RPD696"}
    default = {**EFS, "metadata": {"name": "efs", **DEFAULT}}
    assert claim_on([EBS, default]) == {}


def test_no_node_has_the_labels() -> None:
    nodes = paper.nodes()
    for node in nodes[1:]:
        node["metadata"]["labels"]["role"] = "gpu"
    findings = check(paper.case(paper.rendered(), nodes=nodes)).findings
    assert {f.code for f in findings} == {"RPD697"}
    assert "role=gpu-worker on no nodes" in findings[0].message
    assert "instance-type=g6.8xlarge on 2 nodes" in findings[0].message


def test_a_device_that_no_plugin_has_announced() -> None:
    nodes = paper.nodes()
    del nodes[2]["status"]["allocatable"]["vpc.amazonaws.com/efa"]
    code, finding = alone(nodes=nodes)
    assert code == "RPD697"
    assert "gpu-b offers none of 1 vpc.amazonaws.com/efa" in finding.message


def test_where_nodes_can_come_it_is_a_warning() -> None:
    code, finding = alone(nodes=paper.nodes()[:2], autoscaled=True)
    assert (code, finding.severity) == ("RPD698", "warning")


def own_pods() -> list[dict[str, Any]]:
    resources = {"requests": {"nvidia.com/gpu": "1"}}
    return [
        {
            "metadata": {
                "namespace": "inference",
                "labels": {"app.kubernetes.io/instance": "llm"},
            },
            "spec": {"nodeName": name, "containers": [{"resources": resources}]},
            "status": {"phase": "Running"},
        }
        for name in ("gpu-a", "gpu-b")
    ]


def test_pods_of_the_release_itself_are_not_in_its_way() -> None:
    assert found(pods=own_pods()) == {}


def test_pods_of_another_release_are() -> None:
    pods = own_pods()
    pods[0]["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
    code, finding = alone(pods=pods)
    assert code == "RPD697"
    assert "has no nvidia.com/gpu left of 1" in finding.message


def test_a_second_cluster_needs_room_beside_the_first() -> None:
    rendered = paper.rendered("upgrade.strategy=NewCluster", "upgrade.spareCapacity=true")
    live = copy.deepcopy(rendered.rayservice)
    running = {"metadata": {"name": "c"}, "spec": copy.deepcopy(live["spec"]["rayClusterConfig"])}
    pod = running["spec"]["headGroupSpec"]["template"]["spec"]
    pod["containers"][0]["image"] = "example.org/other"
    changes = {"rayservice": live, "raycluster": running, "pods": own_pods()}
    findings = check(paper.case(rendered, **changes)).findings
    assert [f.code for f in findings] == ["RPD697", "RPD697"]


def test_what_the_user_may_not_do() -> None:
    refused = [Permission("create", "ray.io", "rayservices", "inference")]
    code, finding = alone(refused=refused)
    assert code == "RPD699"
    assert "create rayservices.ray.io" in finding.message


def test_everything_is_told_at_once() -> None:
    findings = found(server="v1.40.0", operators=[], nodes=[])
    assert set(findings) == {"RPD683", "RPD688", "RPD697"}


def test_what_may_not_be_read_is_not_found_wanting() -> None:
    unseen = dict.fromkeys(
        ["the RayService CRD", "KubeRay's operator", "nodes", "pods of all namespaces"], "no"
    )
    case: Case = paper.case(paper.rendered(), crd=None, operators=[], nodes=[], unseen=unseen)
    report = check(case)
    assert report.findings == []
    assert len(report.not_checked) == 4
