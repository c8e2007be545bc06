"""What the checks ask for is what the shipped policy and role allow, no less and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from raypd import yaml_text
from raypd.live.install.facts import RAYSERVICE_CRD, gather
from raypd.preflight import checks
from raypd.preflight.image import image_name, look_up
from raypd.preflight.outcome import NotChecked, Once
from unit.live import paper
from unit.preflight.aws.test_filesystems import efs, lustre, volume
from unit.preflight.kubernetes.good import Cluster, daemonset, daemonsets
from unit.preflight.simulated import (
    CLUSTER,
    Fails,
    Pages,
    PaperKube,
    Simulated,
    config,
    outcomes,
    site,
    values,
)

FOLDER = Path(__file__).parents[3] / "docs" / "preflight"
POLICY = json.loads((FOLDER / "iam-policy.json").read_text())
ROLES = list(yaml_text.load_all((FOLDER / "rbac.yaml").read_text()))
ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ray"


def actions() -> set[str]:
    allowed: set[str] = set()
    for statement in POLICY["Statement"]:
        written = statement["Action"]
        allowed |= {written} if isinstance(written, str) else set(written)
    return allowed


def everything(aws: Simulated, pages: Pages) -> None:
    """Makes all checks on an account where each has something to look at."""
    written = config()
    gpu = written["managedNodeGroups"][1]
    written["managedNodeGroups"].append({**gpu, "name": "spot", "spot": True})
    gpu["placement"] = {"groupName": "close"}
    aws.placement_groups["close"] = "cluster"
    aws.eks()
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER)
    del aws.quotas["L-1216C47A"]
    default = {"Quota": {"Value": 32.0}}
    aws.answers["service-quotas.GetAWSDefaultServiceQuota"] = lambda _: default
    manifest = json.dumps({"config": {"digest": "sha256:c"}})
    aws.answers["ecr.BatchGetImage"] = lambda _: {"images": [{"imageManifest": manifest}]}
    aws.answers["ecr.GetDownloadUrlForLayer"] = lambda _: {"downloadUrl": "https://s3.test/c"}
    aws.answers["ec2.DescribeSpotPriceHistory"] = lambda _: {"SpotPriceHistory": []}
    pages.put("https://s3.test/c", {"architecture": "amd64"})
    rendered = paper.rendered()
    rendered.manifests.append(volume(efs(aws), "efs.csi.aws.com"))
    rendered.manifests.append(volume(lustre(aws, "us-west-2a"), "fsx.csi.aws.com"))
    chosen = values(image={"repository": ECR})
    where = site(
        aws,
        rendered=rendered,
        config=written,
        values=chosen,
        web=pages.web,
        image=Once(lambda: look_up(image_name(chosen), pages.web, aws.account)),
    )
    checks.run(where, [check for check in checks.CHECKS if check.side in ("AWS", "registry")])


def test_the_policy_allows_the_calls_that_are_made_and_no_other(
    aws: Simulated, pages: Pages
) -> None:
    everything(aws, pages)
    free = {"sts:GetCallerIdentity"}  # takes no permission
    assert aws.calls - free == actions()


def test_the_policy_only_reads() -> None:
    assert {statement["Effect"] for statement in POLICY["Statement"]} == {"Allow"}
    for action in actions():
        assert re.match(r"\w+:(Describe|Get|BatchGet)[A-Z]", action), action


Read = tuple[str, str, str, str, str]  # verb, API group, resource, namespace, name


class Recorder(Cluster):
    """Remembers what is read of the API's objects; the lists of kinds are open to everybody."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__(objects)
        self.reads: set[Read] = set()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self._record("get", path)
        return super().get(path, **query)

    def list(self, path: str, selector: str = "") -> list[dict[str, Any]]:
        self._record("list", path)
        return super().list(path, selector)

    def _record(self, verb: str, path: str) -> None:
        parts = path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1:2], parts[3:])
        if not rest:
            return  # /version, /apis/GROUP and /apis/GROUP/VERSION
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        name = rest[1] if len(rest) > 1 else ""
        self.reads.add((verb, "".join(group), rest[0], namespace, name))


def discovery() -> dict[str, Any]:
    kinds = {
        "/api/v1": [
            *(("ServiceAccount", "serviceaccounts"), ("Pod", "pods")),
            ("PersistentVolumeClaim", "persistentvolumeclaims"),
        ],
        "/apis/ray.io/v1": [("RayService", "rayservices")],
        "/apis/policy/v1": [("PodDisruptionBudget", "poddisruptionbudgets")],
        "/apis/gateway.networking.k8s.io/v1": [("HTTPRoute", "httproutes")],
        "/apis/networking.k8s.io/v1": [("Ingress", "ingresses")],
        "/apis/monitoring.coreos.com/v1": [("PodMonitor", "podmonitors")],
    }
    return {
        path: {"resources": [{"kind": k, "name": n, "namespaced": True} for k, n in known]}
        for path, known in kinds.items()
    }


def cluster() -> Recorder:
    inside = "/api/v1/namespaces/inference"
    ray = "/apis/ray.io/v1/namespaces/inference"
    running = {"activeServiceStatus": {"rayClusterName": "c1"}}
    live = paper.rendered().rayservice
    nodes = {f"/api/v1/nodes/{node['metadata']['name']}": node for node in paper.nodes()}
    claim = {"metadata": {"name": "w"}, "spec": {"volumeName": "v", "accessModes": []}}
    return Recorder(
        {
            **discovery(),
            **nodes,
            **daemonsets(daemonset("efs-csi-node")),
            inside: {"metadata": {"name": "inference"}},
            f"{inside}/persistentvolumeclaims/w": claim,
            "/api/v1/persistentvolumes/v": volume("fs-01234567", "efs.csi.aws.com"),
            RAYSERVICE_CRD: paper.crd(),
            f"{ray}/rayservices/llm-ray-pd-llm": {**live, "status": running},
            f"{ray}/rayclusters/c1": {
                "metadata": {"name": "c1"},
                "spec": live["spec"]["rayClusterConfig"],
            },
        }
    )


COMMON = (
    "huggingface.existingSecret.name=hf-token",
    "prefill.env.A.valueFrom.configMapKeyRef.name=settings",
    "prefill.env.A.valueFrom.configMapKeyRef.key=a",
    "prefill.priorityClassName=high",
    "serviceAccount.create=false",
    "serviceAccount.name=engines",
    "httpRoute.enabled=true",
    "httpRoute.parentRefs[0].name=public",
    "ingress.enabled=true",
    "monitoring.podMonitor.enabled=true",
    "cache.type=persistentVolumeClaim",
)


def kubernetes_reads() -> set[Read]:
    reads: set[Read] = set()
    claims: list[dict[str, str]] = [{"existingClaim": "w"}, {"storageClassName": "efs"}]
    for claim in claims:
        ((key, value),) = claim.items()
        rendered = paper.rendered(*COMMON, f"cache.persistentVolumeClaim.{key}={value}")
        connection = cluster()
        gather(connection, rendered, "inference")
        chosen = values(
            cache={"type": "persistentVolumeClaim", "persistentVolumeClaim": claim},
        )
        where = site(rendered=rendered, values=chosen, kube=PaperKube(rendered, connection))
        for check in checks.CHECKS:
            if check.side == "Kubernetes" and check.name != "server-accepts":
                outcomes(check.function, where)
        # The file systems of AWS are found through the cluster's volumes.
        where.kube.volume_sources(claim)
        reads |= connection.reads
    return reads


def rules() -> list[tuple[str, dict[str, Any]]]:
    """(namespace, rule); "" for the whole cluster."""
    return [
        (role["metadata"].get("namespace", ""), rule) for role in ROLES for rule in role["rules"]
    ]


def allows(namespace: str, rule: dict[str, Any], resource: str, read: Read) -> bool:
    verb, group, wanted, where, name = read
    return (
        namespace in ("", where)
        and group in rule["apiGroups"]
        and wanted == resource
        and verb in rule["verbs"]
        and name in rule.get("resourceNames", [name])
    )


def test_the_role_allows_what_is_read_and_no_more() -> None:
    reads = kubernetes_reads()
    unused = []
    for namespace, rule in rules():
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                narrowed = {**rule, "verbs": [verb]}
                if not any(allows(namespace, narrowed, resource, read) for read in reads):
                    unused.append((namespace, resource, verb))
    refused = [
        read
        for read in sorted(reads)
        if not any(
            allows(namespace, rule, resource, read)
            for namespace, rule in rules()
            for resource in rule["resources"]
        )
    ]
    assert (refused, unused) == ([], [])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: f"{role['kind']}-{role['metadata']}")
def test_the_role_only_reads(role: dict[str, Any]) -> None:
    for rule in role["rules"]:
        assert set(rule["verbs"]) <= {"get", "list"}
        assert "*" not in [*rule["apiGroups"], *rule["resources"]]
        assert "secrets" not in rule["resources"] or rule["resourceNames"]


def test_without_the_rights_nothing_passes(aws: Simulated) -> None:
    def refuse(_: object) -> dict[str, Any]:
        raise Fails("UnauthorizedOperation", "no")

    for action in ("DescribeInstances", "DescribeInstanceTypes", "DescribeSecurityGroups"):
        aws.answers[f"ec2.{action}"] = refuse
    aws.eks()
    for name in ("vcpu-quotas", "efa-self-rules", "one-tagged-group", "free-addresses"):
        (check,) = [check for check in checks.CHECKS if check.name == name]
        (outcome,) = outcomes(check.function, site(aws))
        assert isinstance(outcome, NotChecked)
        assert "UnauthorizedOperation" in str(outcome)
