"""What a cluster must have before a release goes onto it, all of it looked at in one go.

A check is a function that takes a Case and yields findings. Adding one is
writing it and naming it in CHECKS; its code gets an entry in data/rules.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from raypd.lint.contract import contract_for
from raypd.lint.subject import Subject, error, mapping, sequence, warning
from raypd.live.install import operator, policy
from raypd.live.install.crd import pruned
from raypd.live.install.facts import RAY_API, Facts, Reference, references
from raypd.live.install.placing import Shortage, Wanted, shortage_text, shortages, wanted
from raypd.render import Rendered
from raypd.report import Finding, Report
from raypd.upgrade.change import Change, change

Json = dict[str, Any]

RAYSERVICE_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayservices.ray.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_ENFORCED = "pod-security.kubernetes.io/enforce"
_ONE_NODE = ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")  # an EBS volume is attached to one node

# Capabilities that the baseline level lets a pod add, from Kubernetes' pod security standards.
_BASELINE = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)


# What `raypd up --with-operator` repairs, so that it does not stand in its way.
REPAIRED = frozenset(["RPD680", "RPD682", "RPD683"])


@dataclass(frozen=True)
class Case:
    """A render that is to go onto a cluster. `versions` is the chart's files/versions.yaml."""

    rendered: Rendered
    release: str
    namespace: str
    versions: Json
    facts: Facts

    @cached_property
    def change(self) -> Change | None:
        """What the upgrade does to the pods of a release that is there; None when there are none."""
        facts = self.facts
        if facts.rayservice is None or facts.raycluster is None:
            return None
        return change(facts.schema, self.rendered.rayservice, facts.rayservice, facts.raycluster)

    @cached_property
    def subject(self) -> Subject:
        """The render, taken apart."""
        return Subject(self.rendered, contract_for(""))


Check = Callable[[Case], Iterator[Finding]]


def check(case: Case) -> Report:
    """Runs every check."""
    report = Report(checked=["the cluster: " + ", ".join(title for title, _ in CHECKS)])
    for _, function in CHECKS:
        report.findings.extend(function(case))
    for what, why in case.facts.unseen.items():
        report.not_checked.append(f"{what}: {why}")
    return report


def ray_api_present(case: Case) -> Iterator[Finding]:
    kinds = case.facts.kinds.get(RAY_API)
    if RAY_API not in case.facts.unseen and "RayService" not in (kinds or {}):
        yield error(
            "RPD680",
            "cluster",
            "The cluster does not know RayServices: KubeRay's CRDs are not installed.",
            f"`raypd up --with-operator` installs KubeRay {operator.wanted_version()} with its CRDs.",
        )


def every_kind_served(case: Case) -> Iterator[Finding]:
    for version, kinds in case.facts.kinds.items():
        asked = {m["kind"] for m in case.rendered.manifests if m.get("apiVersion") == version}
        absent = sorted(asked - set(kinds or {}))
        if absent and version != RAY_API and version not in case.facts.unseen:
            yield error(
                "RPD681",
                f"{version} {', '.join(absent)}",
                f"The values ask for {_and(absent)}, and the cluster does not know {version}, so "
                "Helm would refuse the whole release.",
                "Install what brings that CRD (Prometheus' operator, a Gateway controller ...), or "
                "turn the objects off.",
            )


def no_field_dropped(case: Case) -> Iterator[Finding]:
    schema = case.facts.schema
    dropped = pruned(schema, case.rendered.rayservice) if schema else []
    if dropped:
        yield error(
            "RPD682",
            dropped[0],
            f"The RayService CRD of this cluster does not know {_and(dropped)}, and drops what it "
            "does not know without a word: the CRD is older than the chart needs.",
            f"Apply the CRDs of KubeRay {operator.wanted_version()}, by the server because of their "
            'size: kubectl apply --server-side -k "github.com/ray-project/kuberay/ray-operator/'
            f'config/crd?ref=v{operator.wanted_version()}"',
        )


def operator_there(case: Case) -> Iterator[Finding]:
    if case.facts.operator is None and "KubeRay's operator" not in case.facts.unseen:
        yield error(
            "RPD683",
            "cluster",
            "No KubeRay operator is in the cluster, so a RayService would stay a piece of text.",
            f"`raypd up --with-operator` installs KubeRay {operator.wanted_version()}.",
        )


def operator_running(case: Case) -> Iterator[Finding]:
    found = case.facts.operator
    if found is not None and not operator.is_running(found):
        where = _full_name(found)
        yield error(
            "RPD684",
            f"Deployment {where}",
            "The KubeRay operator is installed and none of its pods is ready.",
            f"See why: kubectl -n {found['metadata']['namespace']} describe pods -l "
            "'app.kubernetes.io/name in (kuberay, kuberay-operator)'",
        )


def operator_not_too_old(case: Case) -> Iterator[Finding]:
    version = _operator_version(case)
    known = sorted(map(_numbers, case.versions["kuberay"]))
    if version and known and _numbers(version)[:2] < known[0]:
        yield error(
            "RPD685",
            _operator_path(case),
            f"The KubeRay operator is {version}, older than {case.versions['kuberay'][0]}, the "
            "oldest that the chart was made for.",
            f"KubeRay {operator.wanted_version()}; raypd never changes an operator that is there.",
        )


def operator_of_known_version(case: Case) -> Iterator[Finding]:
    if case.facts.operator is None:
        return
    version = _operator_version(case)
    known = case.versions["kuberay"]
    if version is None:
        yield warning(
            "RPD686",
            _operator_path(case),
            "Neither the image's tag nor a label tells the version of the KubeRay operator.",
            f"Be sure that it is one of {_and(known)}.",
        )
    elif ".".join(version.split(".")[:2]) not in known and _numbers(version) > _numbers(known[0]):
        yield warning(
            "RPD686",
            _operator_path(case),
            f"The chart was not tried with KubeRay {version}.",
            f"One of {_and(known)}, or a chart that knows {version}.",
        )


def operator_watches_namespace(case: Case) -> Iterator[Finding]:
    found = case.facts.operator
    names = operator.watched(found) if found else None
    if names is not None and case.namespace not in names:
        yield error(
            "RPD687",
            _operator_path(case),
            f"The KubeRay operator looks only at the namespaces {_and(names)}, so nothing would "
            f"happen in {case.namespace}.",
            f"`--namespace {names[0]}`, or add {case.namespace} to the operator's `watchNamespace`.",
        )


def operator_let_in(case: Case) -> Iterator[Finding]:
    found = case.facts.operator
    if found is None or "the operator's namespace" in case.facts.unseen:
        return
    made, head = policy.policies(case.rendered), policy.head_labels(case.rendered)
    if policy.shuts_out(made, case.namespace, head, found, case.facts.operator_space):
        yield error(
            "RPD689",
            "networkPolicy.operator",
            f"The KubeRay operator is in namespace {found['metadata']['namespace']}, and the release's "
            "NetworkPolicy does not let it reach Ray's dashboard: where the network enforces policies, "
            "Ray never gets its serve config, and the application never runs.",
            policy.remedy(found),
        )


def kubernetes_version_known(case: Case) -> Iterator[Finding]:
    minor = ".".join(map(str, _numbers(case.facts.server)[:2]))
    if minor not in case.versions["kubernetes"]:
        yield warning(
            "RPD688",
            "cluster",
            f"The chart was not tried on Kubernetes {case.facts.server}.",
            f"One of {_and(case.versions['kubernetes'])}.",
        )


def namespace_stays(case: Case) -> Iterator[Finding]:
    found = case.facts.namespace
    if found and mapping(found.get("metadata")).get("deletionTimestamp"):
        yield error(
            "RPD690",
            f"namespace {case.namespace}",
            "The namespace is being deleted, and takes no new objects.",
            "Wait until it is gone, or take another one with --namespace.",
        )


def namespace_admits_pods(case: Case) -> Iterator[Finding]:
    labels = mapping(mapping((case.facts.namespace or {}).get("metadata")).get("labels"))
    level = labels.get(_ENFORCED)
    if level not in ("baseline", "restricted"):
        return
    against = {
        reason
        for manifest in case.rendered.manifests
        for _, pod in _pods_in(manifest, "")
        for reason in _against(pod, level)
    }
    if against:
        yield error(
            "RPD691",
            f"namespace {case.namespace}",
            f"The namespace enforces the pod security level {level}, and the pods need what it "
            f"refuses: {_and(sorted(against))}. They would never be made.",
            f"kubectl label namespace {case.namespace} {_ENFORCED}=privileged --overwrite; or values "
            "that need none of it.",
        )


def references_there(case: Case) -> Iterator[Finding]:
    for reference in references(case.rendered):
        identity = (reference.kind, reference.name)
        if identity not in case.facts.objects:
            continue
        found = case.facts.objects[identity]
        if found is None:
            yield error(
                "RPD692",
                reference.path,
                f"There is no {reference.kind} {reference.name}"
                + (
                    "." if reference.kind == "PriorityClass" else f" in namespace {case.namespace}."
                ),
                _make(reference, case),
            )
        elif reference.key and reference.key not in mapping(found.get("data")):
            keys = _and(sorted(mapping(found.get("data")))) or "none"
            yield error(
                "RPD693",
                reference.path,
                f"The {reference.kind} {reference.name} has no key `{reference.key}`; it has {keys}.",
                "The key that holds it, by the values; or put it into the object under that name.",
            )


def claims_reach_every_node(case: Case) -> Iterator[Finding]:
    pods = sum(group.pods[0] for group in case.subject.workers)
    for reference in references(case.rendered):
        claim = case.facts.objects.get((reference.kind, reference.name))
        if reference.kind != "PersistentVolumeClaim" or claim is None or pods < 2:
            continue
        modes = sequence(mapping(claim.get("spec")).get("accessModes"))
        if not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
            yield error(
                "RPD694",
                reference.path,
                f"The claim {reference.name} allows {_and(modes)}, and {pods} pods on several nodes "
                "are to mount it: all but those on one node would wait for ever.",
                "A claim with ReadWriteMany (EFS, FSx for Lustre), or `cache.type: hostPath`.",
            )


def storage_class_there(case: Case) -> Iterator[Finding]:
    if "storage classes" in case.facts.unseen:
        return
    classes = {c["metadata"]["name"]: c for c in case.facts.storage_classes}
    for claim in _new_claims(case):
        name = mapping(claim.get("spec")).get("storageClassName")
        path = f"PersistentVolumeClaim {claim['metadata']['name']}"
        if name and name not in classes:
            yield error(
                "RPD695",
                path,
                f"There is no StorageClass {name}; there are {_and(sorted(classes)) or 'none'}.",
                "`cache.persistentVolumeClaim.storageClassName`: one that is there.",
            )
        elif not name and _default_class(case) is None:
            yield error(
                "RPD695",
                path,
                "No storage class is named, and the cluster has no default one; it has "
                f"{_and(sorted(classes)) or 'none at all'}.",
                "`cache.persistentVolumeClaim.storageClassName`: one of them.",
            )


def storage_class_fits(case: Case) -> Iterator[Finding]:
    classes = {c["metadata"]["name"]: c for c in case.facts.storage_classes}
    for claim in _new_claims(case):
        spec = mapping(claim.get("spec"))
        name = spec.get("storageClassName")
        chosen = classes.get(name) if name else _default_class(case)
        if chosen is None:
            continue
        provisioner = str(chosen.get("provisioner"))
        path = f"PersistentVolumeClaim {claim['metadata']['name']}"
        label = chosen["metadata"]["name"]
        if provisioner in _ONE_NODE and "ReadWriteMany" in sequence(spec.get("accessModes")):
            yield error(
                "RPD696",
                path,
                f"The StorageClass {label} makes EBS volumes, which only one node can mount, and "
                "the claim asks for ReadWriteMany: it would stay pending.",
                "A class of EFS or FSx for Lustre, or `cache.type: hostPath`.",
            )
        elif (
            ".csi." in provisioner
            and provisioner not in case.facts.drivers
            and "CSI drivers" not in case.facts.unseen
        ):
            yield error(
                "RPD696",
                path,
                f"The StorageClass {label} is made by {provisioner}, and no such CSI driver is "
                "installed: the claim would stay pending.",
                f"Install the driver {provisioner} (on EKS an add-on), or take another class.",
            )


def room_for_pods(case: Case) -> Iterator[Finding]:
    for short in missing_room(case):
        message = shortage_text(short)
        if case.facts.autoscaled:
            yield warning(
                "RPD698",
                short.wanted.path,
                f"{message} The pods will wait until the cluster's autoscaler brings nodes.",
                "Nothing, if its node pools can make such nodes; else a pool that can.",
            )
        else:
            yield error(
                "RPD697",
                short.wanted.path,
                f"{message} The pods would wait for ever.",
                "Nodes that fit, or values that fit the nodes: `instanceType`, `nodeSelector`, "
                "`tolerations` and `resources` of the role.",
            )


def missing_room(case: Case) -> list[Shortage]:
    """The groups whose pods do not all find a node; none where nodes and pods may not be read."""
    if not room_is_seen(case.facts):
        return []
    return shortages(wanted_pods(case.subject), case.facts.nodes, pods_beside(case))


def room_is_seen(facts: Facts) -> bool:
    """The user may read all that room is judged by."""
    return {"nodes", "pods of all namespaces"}.isdisjoint(facts.unseen)


def wanted_pods(subject: Subject) -> list[Wanted]:
    """What the pods of a render ask of the nodes."""
    scaling = subject.cluster.get("enableInTreeAutoscaling") is True
    return wanted(
        subject.groups, mapping(subject.cluster.get("autoscalerOptions")) if scaling else None
    )


def pods_beside(case: Case) -> list[Json]:
    """The pods that stay where they are: those of this release make room for those that take their
    place, unless a second cluster comes."""
    beside = case.change is not None and case.change.new_cluster
    return [pod for pod in case.facts.pods if beside or not _is_own(pod, case)]


def permissions_given(case: Case) -> Iterator[Finding]:
    if case.facts.refused:
        lacking = _and([str(permission) for permission in case.facts.refused])
        yield error(
            "RPD699",
            f"namespace {case.namespace}",
            f"You may not do what the install takes: {lacking}.",
            "A Role with these verbs in that namespace (namespaces and other objects of the cluster "
            "need a ClusterRole), or another user with --context.",
        )


CHECKS: list[tuple[str, Check]] = [
    ("KubeRay's CRDs", ray_api_present),
    ("all other kinds of the render", every_kind_served),
    ("fields that the CRD would drop", no_field_dropped),
    ("the KubeRay operator", operator_there),
    ("that the operator runs", operator_running),
    ("that the operator is not too old", operator_not_too_old),
    ("the operator's version", operator_of_known_version),
    ("the namespaces that the operator watches", operator_watches_namespace),
    ("the operator's way to Ray", operator_let_in),
    ("the version of Kubernetes", kubernetes_version_known),
    ("the namespace", namespace_stays),
    ("the namespace's pod security level", namespace_admits_pods),
    ("Secrets and other objects that the values name", references_there),
    ("access modes of volumes", claims_reach_every_node),
    ("storage classes", storage_class_there),
    ("what makes the storage classes' volumes", storage_class_fits),
    ("room on the nodes", room_for_pods),
    ("permissions", permissions_given),
]


def _pods_in(value: Any, path: str) -> Iterator[tuple[str, Json]]:
    """(path, pod spec) for each pod that a manifest describes."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _pods_in(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield path, value
        for key, inner in value.items():
            yield from _pods_in(inner, f"{path}.{key}" if path else key)


def _against(pod: Json, level: str) -> Iterator[str]:
    """What of a pod the level refuses, as far as the chart can render it."""
    if any("hostPath" in mapping(volume) for volume in sequence(pod.get("volumes"))):
        yield "hostPath volumes"
    whole = mapping(pod.get("securityContext"))
    for container in [*sequence(pod.get("containers")), *sequence(pod.get("initContainers"))]:
        context = mapping(mapping(container).get("securityContext"))
        added = sequence(mapping(context.get("capabilities")).get("add"))
        if context.get("privileged"):
            yield "privileged containers"
        yield from (f"the capability {name}" for name in added if name not in _BASELINE)
        if level == "restricted" and not {**whole, **context}.get("runAsNonRoot"):
            yield "containers that may run as root"


def _make(reference: Reference, case: Case) -> str:
    """The command that makes what a Reference names."""
    namespace = "" if case.facts.namespace else f"kubectl create namespace {case.namespace}; "
    inside = f"kubectl -n {case.namespace} create"
    if reference.kind == "Secret":
        if "imagePullSecrets" in reference.path:
            return f"{namespace}{inside} secret docker-registry {reference.name} ..."
        key = reference.key or "KEY"
        return f"{namespace}{inside} secret generic {reference.name} --from-literal={key}=..."
    if reference.kind in ("ConfigMap", "ServiceAccount"):
        return f"{namespace}{inside} {reference.kind.lower()} {reference.name} ..."
    return f"Make the {reference.kind} {reference.name}, or name one that is there."


def _new_claims(case: Case) -> list[Json]:
    return [m for m in case.rendered.manifests if m.get("kind") == "PersistentVolumeClaim"]


def _default_class(case: Case) -> Json | None:
    for found in case.facts.storage_classes:
        annotations = mapping(mapping(found.get("metadata")).get("annotations"))
        if annotations.get(_DEFAULT_CLASS) == "true":
            return found
    return None


def _is_own(pod: Json, case: Case) -> bool:
    metadata = mapping(pod.get("metadata"))
    instance = mapping(metadata.get("labels")).get("app.kubernetes.io/instance")
    return metadata.get("namespace") == case.namespace and instance == case.release


def _operator_version(case: Case) -> str | None:
    found = case.facts.operator
    return operator.version_of(found) if found else None


def _operator_path(case: Case) -> str:
    return f"Deployment {_full_name(case.facts.operator or {})}"


def _full_name(deployment: Json) -> str:
    metadata = mapping(deployment.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _numbers(version: str) -> tuple[int, ...]:
    """ "v1.35.4-eks-123" -> (1, 35, 4)."""
    plain = version.removeprefix("v").partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in plain.split(".") if part.isdigit())


def _and(words: list[str]) -> str:
    """ "a, b and c"; a list of many is cut."""
    words = words if len(words) <= 6 else [*words[:6], f"{len(words) - 6} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
