"""The release itself, the operator, and what KubeRay thinks of the RayService (RPD60x).

KubeRay 1.6.2: conditions and events of controllers/ray/rayservice_controller.go and
raycluster_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from raypd.live.diagnosis.trouble import Check, Trouble, name_of, of_release, of_roles
from raypd.live.snapshot import ENGINES, HEAD, Json, Snapshot, time_of

_OPERATOR = "`raypd up --with-operator`, or KubeRay's own Helm chart kuberay-operator."
_TRIES_AGAIN = 600  # seconds within which KubeRay has another try at what it cannot do


def rayservices_unknown(snapshot: Snapshot) -> Iterator[Trouble]:
    if not snapshot.crd:
        yield of_release(
            "RPD602",
            "the cluster",
            "The cluster does not know the kind RayService (ray.io/v1): KubeRay's CRDs are not "
            "there.",
            _OPERATOR,
        )


def no_operator(snapshot: Snapshot) -> Iterator[Trouble]:
    if not snapshot.crd or "Deployments of all namespaces" in snapshot.unseen:
        return
    if snapshot.operator is None:
        # Under a name and labels of its own it is not found, but its work is.
        if not (snapshot.rayservice or {}).get("status"):
            yield of_release(
                "RPD603",
                "the cluster",
                "No KubeRay operator runs in the cluster, so nobody acts on a RayService.",
                _OPERATOR,
            )
    elif not (snapshot.operator.get("status") or {}).get("readyReplicas"):
        operator = snapshot.operator["metadata"]
        yield of_release(
            "RPD604",
            name_of("Deployment", snapshot.operator),
            "The KubeRay operator has no pod that is ready, so nobody acts on the RayService.",
            f"See why: `kubectl -n {operator['namespace']} describe deployment {operator['name']}` "
            f"and `kubectl -n {operator['namespace']} logs deployment/{operator['name']}`.",
        )


def no_release(snapshot: Snapshot) -> Iterator[Trouble]:
    if snapshot.rayservice is not None or not snapshot.crd or "RayServices" in snapshot.unseen:
        return
    where = f"release {snapshot.release} in namespace {snapshot.namespace}"
    if snapshot.helm is None:
        yield of_release(
            "RPD601",
            where,
            f"There is no release {snapshot.release} of the chart in namespace "
            f"{snapshot.namespace}: neither a RayService with its label nor a record of Helm.",
            "`raypd up` installs it. Is it another name (--release), namespace (-n) or cluster "
            "(--context)? `helm list -A` lists all releases.",
        )
    elif snapshot.helm.get("status") == "deployed":
        yield of_release(
            "RPD608",
            where,
            f"Helm has the release {snapshot.release} as deployed, but its RayService is not there. "
            "Somebody has deleted it.",
            "`raypd up` again with the same values: it makes what is missing.",
        )


def release_not_deployed(snapshot: Snapshot) -> Iterator[Trouble]:
    status = (snapshot.helm or {}).get("status", "deployed")
    if status in ("deployed", "superseded"):
        return
    name, namespace = snapshot.release, snapshot.namespace
    where = f"release {name} in namespace {namespace}"
    if status.startswith("pending"):
        yield Trouble(
            "RPD607",
            where,
            frozenset(),
            frozenset(),
            f"Helm's newest revision is {status}: another Helm works on it right now, or one was "
            "killed in the middle. Until that is settled Helm refuses every change.",
            f"Wait for the other one; if there is none: `helm rollback {name} -n {namespace}`, or "
            f"`helm uninstall {name} -n {namespace}` where no revision was ever deployed.",
            "warning",
        )
    else:
        yield Trouble(
            "RPD607",
            where,
            frozenset(),
            frozenset(),
            f"Helm's newest revision is {status}: not all of its objects reached the cluster.",
            f"`helm history {name} -n {namespace}` has Helm's words; repair what they name and run "
            "`raypd up` again.",
            "warning",
        )


def refused(snapshot: Snapshot) -> Iterator[Trouble]:
    """KubeRay's validation, which is no admission: the API server has taken the object."""
    if snapshot.rayservice is None:
        return
    words = next(
        (c["message"] for c in _conditions(snapshot) if c.get("reason") == "ValidationFailed"), None
    )
    if words is None and not (snapshot.rayservice.get("status") or {}).get("conditions"):
        events = snapshot.events_of(
            snapshot.rayservice, "InvalidRayServiceSpec", "InvalidRayServiceMetadata"
        )
        words = events[0]["message"] if events else None
    if words is not None:
        yield of_release(
            "RPD605",
            name_of("RayService", snapshot.rayservice),
            f"KubeRay refuses the RayService and does nothing with it: {words}",
            "Repair the value behind it and run `raypd up` again; `raypd lint` with the same values "
            "names it.",
        )


def cluster_refused(snapshot: Snapshot) -> Iterator[Trouble]:
    for cluster in snapshot.rayclusters:
        events = snapshot.events_of(cluster, "InvalidRayClusterSpec", "InvalidRayClusterMetadata")
        if events and snapshot.age(time_of(events[0])) < _TRIES_AGAIN:
            yield of_release(
                "RPD605",
                name_of("RayCluster", cluster),
                f"KubeRay refuses the Ray cluster and makes no pods for it: {events[0]['message']}",
                "Repair the value behind it and run `raypd up` again; `raypd lint` with the same "
                "values names it.",
            )


def timed_out(snapshot: Snapshot) -> Iterator[Trouble]:
    for condition in _conditions(snapshot):
        if condition.get("reason") == "InitializingTimeout" and snapshot.rayservice:
            metadata = snapshot.rayservice["metadata"]
            yield of_release(
                "RPD609",
                name_of("RayService", snapshot.rayservice),
                f"KubeRay has given up and removed the Ray cluster: {condition['message']}.",
                "A longer `ray.io/initializing-timeout`, or none. KubeRay begins anew only with a "
                f"new RayService: `kubectl -n {metadata['namespace']} delete rayservice "
                f"{metadata['name']}`, then `raypd up`.",
            )


def pods_not_made(snapshot: Snapshot) -> Iterator[Trouble]:
    """Admission that refuses KubeRay's pods: quotas, pod security, webhooks."""
    for cluster in snapshot.rayclusters:
        for reason, roles in (
            ("FailedToCreateHeadPod", (HEAD, *ENGINES)),
            ("FailedToCreateWorkerPod", ENGINES),
        ):
            events = snapshot.events_of(cluster, reason)
            if not events or snapshot.age(time_of(events[0])) > _TRIES_AGAIN:
                continue
            words = events[0]["message"]
            yield of_roles(
                "RPD606",
                name_of("RayCluster", cluster),
                roles,
                f"Kubernetes does not let KubeRay make a pod: {words}",
                _admission(words, snapshot.namespace),
            )


def _admission(words: str, namespace: str) -> str:
    if "exceeded quota" in words:
        return (
            f"More in the namespace's ResourceQuota (`kubectl -n {namespace} get resourcequota`), or "
            "fewer or smaller pods."
        )
    if "PodSecurity" in words:
        return (
            "A namespace that admits what the pods need, with the default cache on the node's disk "
            f"`kubectl label namespace {namespace} --overwrite "
            "pod-security.kubernetes.io/enforce=privileged`; or values without it (cache.type)."
        )
    return "What the words name; a webhook or a policy of the cluster decides there."


def _conditions(snapshot: Snapshot) -> list[Json]:
    return ((snapshot.rayservice or {}).get("status") or {}).get("conditions") or []


CHECKS: list[Check] = [
    rayservices_unknown,
    no_operator,
    no_release,
    release_not_deployed,
    refused,
    cluster_refused,
    timed_out,
    pods_not_made,
]
