"""`raypd down`: says what will be deleted and what stays, deletes it, and waits until it is gone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from raypd.lint.subject import error, mapping, sequence
from raypd.live.cluster import Cluster, Forbidden
from raypd.live.install import operator
from raypd.live.interrupt import INTERRUPTED, Interrupted, Interrupts
from raypd.live.release import Helm
from raypd.render import is_kept
from raypd.report import Finding, Output, Report, UsageError

Json = dict[str, Any]

_ERR = Console(stderr=True, soft_wrap=True)
_PAUSE = 2.0  # seconds between two looks
_GRACE = 30  # seconds that Kubernetes gives a pod that names none
_IN_THE_END = ("PersistentVolumeClaim", "ServiceAccount")  # deleted by name, if at all
_INSTANCE = "app.kubernetes.io/instance"
_REDIS_CLEANUP = "ray.io/gcs-ft-redis-cleanup-finalizer"


@dataclass(frozen=True)
class Left:
    """What of a release is in the cluster, objects as in their YAML; `nodes` are those of its pods,
    None where they may not be read. `operator` is KubeRay's Deployment, or None."""

    rayservices: list[Json] = field(default_factory=list)
    rayclusters: list[Json] = field(default_factory=list)
    jobs: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    nodes: list[Json] | None = None
    operator: Json | None = None

    @property
    def going(self) -> list[tuple[str, Json]]:
        """(kind, object) of all that goes with the release; claims are a matter of their own."""
        kinds = (
            ("RayService", self.rayservices),
            ("RayCluster", self.rayclusters),
            ("Job", self.jobs),
            ("Pod", self.pods),
        )
        return [(kind, item) for kind, items in kinds for item in items]


@dataclass(frozen=True)
class Plan:
    """Lines that say what goes and what stays; `claims` are names of the PVCs to delete in the end,
    `accounts` of the ServiceAccounts that Helm leaves for KubeRay's last Job."""

    deleted: list[str]
    kept: list[str]
    claims: list[str]
    accounts: list[str]


def plan(manifests: list[Json], left: Left, namespace: str, delete_claims: bool) -> Plan:
    """What `helm uninstall` and KubeRay delete, and what stays.

    `manifests` are the release's objects as Helm has them.
    """
    by_helm = [m for m in manifests if not is_kept(m)]
    deleted = [_line(str(m.get("kind")), m) for m in by_helm]
    deleted += [
        f"{_line(kind, item)}, made by KubeRay" if kind == "RayCluster" else _line(kind, item)
        for kind, item in left.going
        if kind != "RayService"
        and (kind, _name(item)) not in {(m["kind"], _name(m)) for m in by_helm}
    ]
    gone = {_name(m) for m in by_helm if m.get("kind") == "PersistentVolumeClaim"}
    claims = [_name(claim) for claim in left.claims if _name(claim) not in gone]
    accounts = [_name(m) for m in manifests if is_kept(m) and m.get("kind") == "ServiceAccount"]
    deleted += [f"ServiceAccount {name}, when KubeRay has emptied the Redis" for name in accounts]
    kept = []
    if delete_claims:
        deleted += [f"PersistentVolumeClaim {name}, with all that it holds" for name in claims]
    else:
        kept += [f"PersistentVolumeClaim {name} (--delete-claims deletes it)" for name in claims]
    for manifest in manifests:
        if is_kept(manifest) and manifest.get("kind") not in _IN_THE_END:
            kept.append(f"{_line(str(manifest.get('kind')), manifest)}, which asks to be kept")
    kept += [f"{path} on the nodes: {what}" for path, what in _host_paths(manifests).items()]
    kept.append(f"namespace {namespace}, KubeRay's operator and its CRDs")
    return Plan(deleted, kept, claims if delete_claims else [], accounts)


def stuck(left: Left, now: float) -> list[Finding]:
    """Why something is still there, one finding for each object; `now` in epoch seconds.

    What only follows from another one that hangs, as a RayService that waits for its RayClusters, is
    told as well, because each holds on by a finalizer of its own.
    """
    ready = {_name(node): _is_ready(node) for node in left.nodes or []}
    has_operator = left.operator is not None and operator.is_running(left.operator)
    found = [_of_pod(pod, ready, left.nodes is not None, now) for pod in left.pods]
    for kind, item in left.going:
        if kind != "Pod":
            found.append(_of_object(kind, item, has_operator))
    return found


def _of_object(kind: str, item: Json, has_operator: bool) -> Finding:
    name, namespace = _name(item), item["metadata"]["namespace"]
    finalizers = sequence(item["metadata"].get("finalizers"))
    path = f"{kind} {namespace}/{name}"
    if not item["metadata"].get("deletionTimestamp"):
        return error(
            "RPD670",
            path,
            "It is still there, and nobody has asked for its end: it is not the release's own, or the "
            "owner that it would go with hangs.",
            f"kubectl -n {namespace} delete {kind.lower()} {name}",
        )
    if not finalizers:
        return error(
            "RPD671",
            path,
            "Its end was asked for, and what it owns has to go first.",
            "Wait, or repair what else is told here.",
        )
    if _REDIS_CLEANUP in finalizers:
        why = (
            "KubeRay first runs a Job that deletes the cluster's state from Redis; it cannot end while "
            "Redis is not to be reached."
        )
    else:
        why = "KubeRay's operator takes that away when all that it made is gone" + (
            "." if has_operator else ", and no operator is running."
        )
    repair = (
        "see the operator's log"
        if has_operator
        else "bring the operator back (`raypd up --with-operator` installs it)"
    )
    return error(
        "RPD672",
        path,
        f"The finalizer {', '.join(finalizers)} holds it. {why}",
        f"Best {repair}. Where it never comes back: kubectl -n {namespace} patch {kind.lower()} {name} "
        """--type merge -p '{"metadata":{"finalizers":null}}' (what it made has to be deleted by """
        "hand then).",
    )


def _of_pod(pod: Json, ready: dict[str, bool], known: bool, now: float) -> Finding:
    metadata, name = pod["metadata"], _name(pod)
    path = f"Pod {metadata['namespace']}/{name}"
    node = str(mapping(pod.get("spec")).get("nodeName") or "")
    ended = metadata.get("deletionTimestamp")
    if not ended:
        return error(
            "RPD670",
            path,
            "It is still there, and nobody has asked for its end: it is not the release's own, or the "
            "owner that it would go with hangs.",
            f"kubectl -n {metadata['namespace']} delete pod {name}",
        )
    force = f"kubectl -n {metadata['namespace']} delete pod {name} --grace-period=0 --force"
    if known and node and not ready.get(node, False):
        state = "is not ready" if node in ready else "is not there any more"
        return error(
            "RPD673",
            path,
            f"It ends on node {node}, which {state}, so nobody can say that it has.",
            f"If the node is off for good, delete it (`kubectl delete node {node}`) or the pod alone: "
            f"{force}",
        )
    # Kubernetes writes the moment at which the grace period is over.
    overdue = now - _seconds(ended)
    if overdue < 0:
        return error(
            "RPD671",
            path,
            f"It still has {-overdue:.0f} s of its grace period of "
            f"{metadata.get('deletionGracePeriodSeconds', _GRACE)} s, in which its requests may end.",
            "Wait; or give a longer --timeout next time.",
        )
    finalizers = sequence(metadata.get("finalizers"))
    if finalizers:
        return error(
            "RPD672",
            path,
            f"The finalizer {', '.join(finalizers)} holds it.",
            "Bring back what set it, or take it away: kubectl -n "
            f"""{metadata["namespace"]} patch pod {name} --type merge """
            """-p '{"metadata":{"finalizers":null}}'""",
        )
    return error(
        "RPD673",
        path,
        f"Its grace period was over {overdue:.0f} s ago, and the kubelet of {node or 'no node'} has "
        "not said that it has ended: a process hangs (often in the GPU's driver), or a volume cannot "
        "be unmounted.",
        f"See `kubectl -n {metadata['namespace']} describe pod {name}`; reboot the node, then: {force}",
    )


@dataclass
class Result:
    """What `raypd down` came to; its fields are the keys of the JSON object. `asked` tells that Helm
    was told to delete it, `gone` that nothing is left."""

    deleted: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    asked: bool = False
    gone: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> str:
        """One JSON object."""
        findings = [finding.model_dump() for finding in self.findings]
        return json.dumps({**vars(self), "findings": findings}, indent=2)


def run(
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    yes: bool,
    delete_claims: bool,
    timeout: int,
    output: Output,
) -> int:
    """Deletes a release and prints what came of it: 0 it is gone, 1 something hangs or the user said
    no, 130 interrupted.

    Raises UsageError when there is no such release, when nobody can be asked, and for what is wrong
    with the way to the cluster.
    """
    with Interrupts() as interrupts:
        helm = Helm(kubeconfig, context, shield=interrupts.held)
        work = Down(release, namespace, Cluster(kubeconfig, context), helm, timeout)
        result = work.result
        try:
            planned = work.look(delete_claims)
            for title, lines in (("Will be deleted:", planned.deleted), ("Stays:", planned.kept)):
                work.say("\n  ".join([title, *lines]))
            if not yes and not _agrees(work):
                print("Nothing was deleted.", file=sys.stderr)
                return 1
            work.go(planned)
        except Interrupted:
            result.interrupted = True
    if output == "json":
        print(result.as_json())
    elif result.interrupted:
        print(
            "Interrupted; what was asked for goes on without being watched."
            if result.asked
            else "Interrupted; nothing was deleted.",
            file=sys.stderr,
        )
    elif result.gone:
        print(f"{release} is gone from namespace {namespace}, in {result.seconds:.0f} s.")
        for line in result.kept:
            print(f"  kept: {line}")
    else:
        Report(findings=result.findings).print()
    return INTERRUPTED if result.interrupted else int(not result.gone)


@dataclass
class Down:
    """One call of the verb. `now` gives the time in epoch seconds, `pause` waits, `say` shows a line."""

    release: str
    namespace: str
    cluster: Cluster
    helm: Helm
    timeout: float = 600
    result: Result = field(default_factory=Result)
    now: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda line: _ERR.print(line, highlight=False, markup=False)

    def look(self, delete_claims: bool) -> Plan:
        """What there is to do. Raises UsageError when there is no such release."""
        self.cluster.get("/version")  # first, so that its failure is plain
        if self.helm.status(self.release, self.namespace) is None:
            there = self.helm.releases(self.namespace)
            raise UsageError(
                f"There is no release {self.release} in namespace {self.namespace}. "
                + (f"There are: {', '.join(there)}." if there else "There is no release at all.")
                + " Name one with --release and --namespace."
            )
        manifests = self.helm.manifests(self.release, self.namespace)
        planned = plan(manifests, self.left(), self.namespace, delete_claims)
        self.result.deleted, self.result.kept = planned.deleted, planned.kept
        return planned

    def go(self, planned: Plan) -> None:
        """Deletes, and waits until nothing is left or time is up."""
        begin = self.now()
        try:
            self.result.asked = True
            self.helm.uninstall(self.release, self.namespace)
            self.say(f"Helm has uninstalled {self.release}")
            left = self._wait(begin)
            for name in planned.accounts if not left.going else []:
                self.cluster.delete(f"{self._inside()}/serviceaccounts/{name}")
            for name in planned.claims:  # last, because a claim in use would only wait
                self.cluster.delete(f"{self._inside()}/persistentvolumeclaims/{name}")
            claims = self._wait_for_claims(planned.claims, begin)
            self.result.findings = stuck(left, self.now()) + [self._held(name) for name in claims]
            self.result.gone = not self.result.findings
        finally:
            self.result.seconds = round(self.now() - begin, 1)

    def left(self) -> Left:
        """What of the release is in the cluster now."""
        ray, inside = f"/apis/ray.io/v1/namespaces/{self.namespace}", self._inside()
        return Left(
            rayservices=self._own(f"{ray}/rayservices"),
            rayclusters=self._own(f"{ray}/rayclusters"),
            jobs=self._own(f"/apis/batch/v1/namespaces/{self.namespace}/jobs"),
            pods=self._own(f"{inside}/pods"),
            claims=self._own(f"{inside}/persistentvolumeclaims"),
            nodes=self._seen("/api/v1/nodes"),
            operator=operator.find(self._seen(operator.DEPLOYMENTS) or []),
        )

    def _own(self, path: str) -> list[Json]:
        """The release's objects of a kind; none where the cluster does not know the kind."""
        try:
            return self.cluster.list(path, f"{_INSTANCE}={self.release}")
        except LookupError:
            return []

    def _seen(self, path: str) -> list[Json] | None:
        """None where the user may not read it."""
        try:
            return self.cluster.list(path)
        except Forbidden:
            return None

    def _inside(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def _wait(self, begin: float) -> Left:
        """Looks until nothing goes on; returns what is left in the end."""
        said = ""
        while True:
            left = self.left()
            counts = {kind: sum(k == kind for k, _ in left.going) for kind, _ in left.going}
            line = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            if line != said:
                self.say(f"{self.now() - begin:6.0f} s  still there: {line or 'nothing'}")
                said = line
            if not left.going or self.now() - begin > self.timeout:
                return left
            self._end_orphans(left)
            self.pause(_PAUSE)

    def _end_orphans(self, left: Left) -> None:
        """Deletes what Helm leaves behind because it was a hook, as the pod of a test that failed."""
        for kind, root in (("Pod", "/api/v1"), ("Job", "/apis/batch/v1")):
            for found, item in left.going:
                metadata = item["metadata"]
                owned = metadata.get("ownerReferences") or metadata.get("deletionTimestamp")
                if found == kind and not owned:
                    inside = f"{root}/namespaces/{self.namespace}/{kind.lower()}s"
                    self.cluster.delete(
                        f"{inside}/{metadata['name']}", propagationPolicy="Background"
                    )

    def _wait_for_claims(self, names: list[str], begin: float) -> list[str]:
        """Names of the claims that are still there in the end."""
        while names:
            there = [_name(c) for c in self._own(f"{self._inside()}/persistentvolumeclaims")]
            names = [name for name in names if name in there]
            if self.now() - begin > self.timeout:
                break
            if names:
                self.pause(_PAUSE)
        return names

    def _held(self, name: str) -> Finding:
        return error(
            "RPD672",
            f"PersistentVolumeClaim {self.namespace}/{name}",
            "The finalizer kubernetes.io/pvc-protection holds it while a pod uses it.",
            f"See which: kubectl -n {self.namespace} describe pvc {name} (`Used By`), and end that pod.",
        )


def _agrees(work: Down) -> bool:
    """Asks. Raises UsageError when nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"The release {work.release} in namespace {work.namespace} is not deleted, because there "
            "is no terminal to ask on. Say --yes to do it."
        )
    return typer.confirm("Delete it?", default=False, err=True)


def _host_paths(manifests: list[Json]) -> dict[str, str]:
    """Folders of the nodes that the pods keep files in, and which groups do; not what they only read."""
    found: dict[str, list[str]] = {}
    for manifest in manifests:
        if manifest.get("kind") != "RayService":
            continue
        config = mapping(mapping(manifest.get("spec")).get("rayClusterConfig"))
        groups = [mapping(config.get("headGroupSpec")), *sequence(config.get("workerGroupSpecs"))]
        for group in groups:
            pod = mapping(mapping(group.get("template")).get("spec"))
            written = {
                mapping(mount).get("name")
                for container in sequence(pod.get("containers"))
                for mount in sequence(mapping(container).get("volumeMounts"))
                if not mapping(mount).get("readOnly")
            }
            for volume in sequence(pod.get("volumes")):
                path = mapping(mapping(volume).get("hostPath")).get("path")
                if path and volume.get("name") in written:
                    found.setdefault(str(path), []).append(str(group.get("groupName", "head")))
    return {path: f"what {' and '.join(groups)} wrote there" for path, groups in found.items()}


def _is_ready(node: Json) -> bool:
    conditions = sequence(mapping(node.get("status")).get("conditions"))
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _line(kind: str, item: Json) -> str:
    return f"{kind} {_name(item)}"


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _seconds(written: str) -> float:
    """A time of Kubernetes ("2026-01-31T12:00:00Z") in epoch seconds."""
    return datetime.fromisoformat(written).timestamp()
