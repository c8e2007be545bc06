"""What a cluster has of what a render needs, read in one go and kept as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from raypd.lint.subject import mapping, sequence
from raypd.live.cluster import Cluster, Forbidden
from raypd.live.install import operator
from raypd.live.install.crd import schema_of
from raypd.render import Rendered

Json = dict[str, Any]
Kinds = dict[str, dict[str, tuple[str, bool]] | None]
_T = TypeVar("_T")

RAY_API = "ray.io/v1"
RAYSERVICE_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayservices.ray.io"
_AUTOSCALERS = (  # of nodes: Karpenter, which EKS's auto mode is as well, and the cluster autoscaler
    "/apis/karpenter.sh",
    "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
)
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ASKERS = 8


@dataclass(frozen=True)
class Permission:
    """One thing that Helm or raypd does: a verb on a resource ("rayservices", group "ray.io"), in
    the release's namespace or, with `namespace` "", in the cluster."""

    verb: str
    group: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}"


@dataclass(frozen=True)
class Reference:
    """An object of the namespace, or of the cluster, that the render names and does not bring along;
    `key` is the one of it that is read, "" for none in particular."""

    kind: str
    name: str
    key: str
    path: str


@dataclass(frozen=True)
class Facts:
    """What the cluster has, as plain data.

    `kinds` is by apiVersion: kind -> (plural, namespaced), None when the server has no such version.
    `objects` are those that References name, by (kind, name), None where there is none; of Secrets
    and ConfigMaps only the keys are kept. `operator_space` is the operator's Namespace. `pods` are all that are on nodes. `crd` is RayService's.
    `rayservice` is the one of the name that is rendered, and `raycluster` what KubeRay made of it: the
    one that is under way, else the one that serves.
    `refused` are permissions that the user lacks. `unseen` says what could not be read, by its name.
    """

    server: str
    namespace: Json | None = None
    kinds: Kinds = field(default_factory=dict)
    crd: Json | None = None
    operators: list[Json] = field(default_factory=list)
    operator_space: Json | None = None
    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    objects: dict[tuple[str, str], Json | None] = field(default_factory=dict)
    storage_classes: list[Json] = field(default_factory=list)
    drivers: list[str] = field(default_factory=list)
    autoscaled: bool = False
    refused: list[Permission] = field(default_factory=list)
    rayservice: Json | None = None
    raycluster: Json | None = None
    unseen: dict[str, str] = field(default_factory=dict)

    @property
    def operator(self) -> Json | None:
        """KubeRay's Deployment."""
        return operator.find(self.operators)

    @property
    def schema(self) -> Json | None:
        """The schema that the cluster has for a RayService."""
        return schema_of(self.crd, RAY_API.rpartition("/")[2]) if self.crd else None


def gather(cluster: Cluster, rendered: Rendered, namespace: str) -> Facts:
    """Reads what the checks look at. What the user may not read is named in `unseen`.

    Raises UsageError when the server cannot be reached or does not accept the credentials.
    """
    server = str(cluster.get("/version")["gitVersion"])  # first, so that its failure is plain
    unseen: dict[str, str] = {}

    def read(what: str, action: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return action()
        except LookupError:
            return otherwise
        except Forbidden as refusal:
            unseen[what] = str(refusal)
            return otherwise

    inside = f"/api/v1/namespaces/{namespace}"
    space = read("the namespace", lambda: cluster.get(inside), None)
    versions = {str(m.get("apiVersion")) for m in rendered.manifests}
    kinds = {v: read(v, lambda v=v: _kinds(cluster, v), None) for v in sorted(versions)}
    objects: dict[tuple[str, str], Json | None] = {}
    for reference in references(rendered):
        what = f"{reference.kind} {reference.name}"
        path = _path(reference, namespace)
        found = read(what, lambda path=path: cluster.get(path), None)
        if what not in unseen:
            objects[(reference.kind, reference.name)] = _without_secrets(reference.kind, found)
    name = rendered.rayservice["metadata"]["name"]
    ray = f"/apis/{RAY_API}/namespaces/{namespace}"
    rayservice = read("the RayService", lambda: cluster.get(f"{ray}/rayservices/{name}"), None)
    running = _cluster_of(rayservice)
    raycluster = (
        read("the RayCluster", lambda: cluster.get(f"{ray}/rayclusters/{running}"), None)
        if running
        else None
    )
    operators = read("KubeRay's operator", lambda: cluster.list(operator.DEPLOYMENTS), [])
    claims = any(m.get("kind") == "PersistentVolumeClaim" for m in rendered.manifests)
    storage = "/apis/storage.k8s.io/v1"
    return Facts(
        server=server,
        namespace=space,
        kinds=kinds,
        crd=read("the RayService CRD", lambda: cluster.get(RAYSERVICE_CRD), None),
        operators=operators,
        operator_space=read("the operator's namespace", lambda: _space(cluster, operators), None),
        nodes=read("nodes", lambda: cluster.list("/api/v1/nodes"), []),
        pods=read("pods of all namespaces", lambda: cluster.list("/api/v1/pods"), []),
        objects=objects,
        storage_classes=read(
            "storage classes", lambda: cluster.list(f"{storage}/storageclasses"), []
        )
        if claims
        else [],
        drivers=read("CSI drivers", lambda: _names(cluster.list(f"{storage}/csidrivers")), [])
        if claims
        else [],
        autoscaled=any(
            read("node autoscalers", lambda p=p: bool(cluster.get(p)), False) for p in _AUTOSCALERS
        ),
        refused=_refused(
            cluster,
            permissions(rendered, kinds, namespace, space is None, raycluster is not None),
        ),
        rayservice=rayservice,
        raycluster=raycluster,
        unseen=unseen,
    )


def permissions(
    rendered: Rendered,
    kinds: Kinds,
    namespace: str,
    new_namespace: bool,
    upgrade: bool,
) -> list[Permission]:
    """What Helm, and raypd beside it, does with these manifests: in a namespace that has to be made
    when it is new, and with a RayCluster that is there when it is an upgrade."""
    needed = [
        # Where Helm keeps its releases.
        Permission(verb, "", "secrets", namespace)
        for verb in ("list", "get", "create", "update", "delete")
    ]
    if new_namespace:
        needed.append(Permission("create", "", "namespaces", ""))
    if upgrade:
        needed.append(Permission("patch", "ray.io", "rayclusters", namespace))
    for manifest in rendered.manifests:
        version = str(manifest.get("apiVersion"))
        known = (kinds.get(version) or {}).get(str(manifest.get("kind")))
        if known is not None:
            plural, namespaced = known
            group = version.rpartition("/")[0]
            needed += [
                Permission(verb, group, plural, namespace if namespaced else "")
                for verb in ("get", "create", "patch", "delete")
            ]
    return list(dict.fromkeys(needed))


def _refused(cluster: Cluster, needed: list[Permission]) -> list[Permission]:
    def lacking(permission: Permission) -> bool:
        attributes = {"verb": permission.verb, "group": permission.group}
        attributes |= {"resource": permission.resource, "namespace": permission.namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return not cluster.create(path, review)["status"]["allowed"]

    if not lacking(Permission("*", "*", "*", "")):  # an administrator: one question for all
        return []
    with ThreadPoolExecutor(_ASKERS) as askers:
        answers = askers.map(lacking, needed)
        return [permission for permission, no in zip(needed, answers, strict=True) if no]


def _space(cluster: Cluster, operators: list[Json]) -> Json | None:
    found = operator.find(operators)
    return cluster.get(f"/api/v1/namespaces/{found['metadata']['namespace']}") if found else None


def _kinds(cluster: Cluster, version: str) -> dict[str, tuple[str, bool]]:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return {
        resource["kind"]: (resource["name"], resource["namespaced"])
        for resource in cluster.get(root)["resources"]
        if "/" not in resource["name"]
    }


def _path(reference: Reference, namespace: str) -> str:
    if reference.kind == "PriorityClass":
        return f"/apis/scheduling.k8s.io/v1/priorityclasses/{reference.name}"
    plurals = {
        "PersistentVolumeClaim": "persistentvolumeclaims",
        "ServiceAccount": "serviceaccounts",
    }
    plural = plurals.get(reference.kind, f"{reference.kind.lower()}s")
    return f"/api/v1/namespaces/{namespace}/{plural}/{reference.name}"


def _without_secrets(kind: str, found: Json | None) -> Json | None:
    if found is None or kind not in ("Secret", "ConfigMap"):
        return found
    keys = [*mapping(found.get("data")), *mapping(found.get("binaryData"))]
    return {"metadata": found["metadata"], "data": dict.fromkeys(keys)}


def _cluster_of(rayservice: Json | None) -> str:
    status = mapping((rayservice or {}).get("status"))
    for key in ("pendingServiceStatus", "activeServiceStatus"):
        if name := mapping(status.get(key)).get("rayClusterName"):
            return str(name)
    return ""


def _names(items: list[Json]) -> list[str]:
    return [str(item["metadata"]["name"]) for item in items]


def references(rendered: Rendered) -> list[Reference]:
    """Every object that the pods need and that the release does not bring along, once each."""
    own = {(m.get("kind"), mapping(m.get("metadata")).get("name")) for m in rendered.manifests}
    found: dict[tuple[str, str, str], Reference] = {}
    for manifest in rendered.manifests:
        title = f"{manifest.get('kind')} {mapping(manifest.get('metadata')).get('name')}"
        for reference in _references_in(manifest, title):
            if (reference.kind, reference.name) not in own:
                found.setdefault((reference.kind, reference.name, reference.key), reference)
    return list(found.values())


def _references_in(value: Any, path: str) -> Iterator[Reference]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _references_in(item, f"{path}[{i}]")
        return
    if not isinstance(value, dict):
        return
    for key, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if isinstance(one := value.get(key), dict) and not one.get("optional"):
            yield Reference(kind, str(one.get("name")), str(one.get("key")), f"{path}.{key}")
    for key, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
        if isinstance(one := value.get(key), dict) and not one.get("optional"):
            yield Reference(kind, str(one.get("name")), "", f"{path}.{key}")
    if isinstance(value.get("containers"), list):
        yield from _references_of_pod(value, path)
    for key, inner in value.items():
        yield from _references_in(inner, f"{path}.{key}" if path else key)


def _references_of_pod(pod: Json, path: str) -> Iterator[Reference]:
    for i, volume in enumerate(map(mapping, sequence(pod.get("volumes")))):
        here = f"{path}.volumes[{i}]"
        for key, name, kind in (
            ("secret", "secretName", "Secret"),
            ("configMap", "name", "ConfigMap"),
            ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
        ):
            source = mapping(volume.get(key))
            if source.get(name) and not source.get("optional"):
                yield Reference(kind, str(source[name]), "", f"{here}.{key}")
    for i, secret in enumerate(map(mapping, sequence(pod.get("imagePullSecrets")))):
        yield Reference("Secret", str(secret.get("name")), "", f"{path}.imagePullSecrets[{i}]")
    for key, kind in (
        ("serviceAccountName", "ServiceAccount"),
        ("priorityClassName", "PriorityClass"),
    ):
        # Every namespace gets its `default` account, also one that is yet to be made.
        if pod.get(key) and (kind, pod[key]) != ("ServiceAccount", "default"):
            yield Reference(kind, str(pod[key]), "", f"{path}.{key}")
