"""Ray Serve: the application, its deployments, and what they wait for (RPD64x).

Words of Ray 2.58 (serve/_private/deployment_state.py) and KubeRay 1.6.2 (rayservice_controller.go).
That a replica takes more than 30 s to be scheduled or to start is said of every engine, and that
KubeRay could not update the applications of every head that is still starting: neither is a trouble
by itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from raypd import engine_log
from raypd.lint.subject import Group, mapping, sequence
from raypd.live.applications import FAILED, Deployment, applications
from raypd.live.diagnosis.trouble import Check, Trouble, name_of, of_release, of_roles
from raypd.live.install import policy
from raypd.live.snapshot import (
    ENGINES,
    HEAD,
    Json,
    Snapshot,
    containers,
    labels,
    ready,
    ready_since,
    running,
    time_of,
)

_MOST = 900  # characters of an error that are told
_ANSWERS = 120  # seconds after which a head that is ready has a dashboard, and KubeRay has used it
_JOINS = 90  # seconds after which a container that runs has joined Ray
_PATIENCE = 300  # seconds for which a replica may be slow to start, before it is sure to lack room
_UNPLACED = re.compile(
    r"to be scheduled\..*Resources required for each replica: (?P<required>.+?), "
    r"total resources available: (?P<free>.+?)\. Use",
    re.DOTALL,
)


def dashboard(snapshot: Snapshot) -> Iterator[Trouble]:
    head = snapshot.head()
    if snapshot.serve is not None or head is None or not ready(head):
        return
    if snapshot.age(ready_since(head)) > _ANSWERS:
        yield of_release(
            "RPD643",
            name_of("pod", head),
            f"The head is ready, but raypd cannot ask Ray Serve how it stands: "
            f"{snapshot.serve_unreachable}.",
            "The right to use pods/portforward, if that is what it says; else the head's log: "
            f"`kubectl -n {snapshot.namespace} logs {head['metadata']['name']}`.",
        )


def config_not_taken(snapshot: Snapshot) -> Iterator[Trouble]:
    """The head has been up for long, and KubeRay still cannot hand it the serve config."""
    head = snapshot.head()
    if head is None or not ready(head) or snapshot.age(ready_since(head)) < _ANSWERS:
        return
    events = snapshot.events_of(snapshot.rayservice, "FailedToUpdateServeApplications")
    if applications(snapshot) or not events or snapshot.age(time_of(events[0])) > _ANSWERS:
        return
    words = events[0]["message"].rpartition("err: ")[2]
    refused = "UpdateDeployments fail" in words
    operator = snapshot.operator
    if operator is not None and not refused:
        around = (snapshot.policies, snapshot.namespace, labels(head))
        if policy.shuts_out(*around, operator, snapshot.operator_space):
            yield of_release(
                "RPD645",
                name_of("RayService", snapshot.rayservice or {}),
                f"KubeRay's operator, in namespace {operator['metadata']['namespace']}, cannot reach Ray's "
                f"dashboard, and the NetworkPolicies of {snapshot.namespace} do not let it: {words}",
                policy.remedy(operator),
            )
            return
    yield of_release(
        "RPD644",
        name_of("RayService", snapshot.rayservice or {}),
        f"{'Ray refuses' if refused else 'KubeRay cannot hand Ray'} the serve config: {words}",
        "The value behind it; `raypd lint` with the same values checks the config."
        if refused
        else "The way from the operator's pod to the head's port 8265: a NetworkPolicy, DNS.",
    )


def not_placed(snapshot: Snapshot) -> Iterator[Trouble]:
    """Replicas that Ray finds no room for although all pods that could hold them are there."""
    for application in applications(snapshot):
        for deployment in application.deployments:
            found = _UNPLACED.search(deployment.message)
            if not found or deployment.failed or _all_placed(deployment):
                continue
            roles = [deployment.role] if deployment.role else list(ENGINES)
            pods = snapshot.component(*roles)
            if all(running(pod) and snapshot.age(_started(pod)) > _JOINS for pod in pods):
                yield _unplaced(application.name, deployment, roles, found, snapshot)


def _all_placed(deployment: Deployment) -> bool:
    """Serve says so for a while of replicas that have their place and are slow to start there."""
    placed = [replica for replica in deployment.replicas if replica.pod]
    return bool(placed) and len(placed) == deployment.target


def _started(pod: Json) -> str:
    """When the last of its containers started."""
    states = [container.get("state") or {} for container in containers(pod)]
    started = [s["running"]["startedAt"] for s in states if "running" in s]
    return max(started, default=pod["metadata"]["creationTimestamp"])


def _unplaced(
    name: str, deployment: Deployment, roles: list[str], found: re.Match[str], snapshot: Snapshot
) -> Trouble:
    needs = _needs(found["required"])
    spec = mapping((snapshot.rayservice or {}).get("spec"))
    workers = sequence(mapping(spec.get("rayClusterConfig")).get("workerGroupSpecs"))
    offers = {str(group.get("groupName")): _offer(group) for group in map(mapping, workers)}
    fitting = [g for g, offer in offers.items() if all(offer[k] >= v for k, v in needs.items())]
    written = _amounts(needs)
    where = f"deployment {deployment.name} of application {name}"
    if not fitting:
        said = "; ".join(
            f"{group} has {', '.join(f'{k} {offer[k]:g}' for k in needs)}"
            for group, offer in offers.items()
        )
        return of_roles(
            "RPD641",
            where,
            roles,
            f"A replica of it needs {written} of one pod, and no group of pods offers that: "
            f"{said or 'there is no group of workers'}.",
            "More of it in a group: CPUs by {role}.resources.cpu, GPUs by {role}.parallelism; an "
            "engine takes one CPU for itself and one for its bundle. `raypd lint` does the sum.",
        )
    return of_roles(
        "RPD641",
        where,
        roles,
        f"A replica of it needs {written} of one pod. Pods of {', '.join(fitting)} offer that; free of "
        f"it now: {_amounts(_needs(found['free'])) or 'nothing'}.",
        "If that stays: one more pod for it ({role}.replicas), or the end of what holds the place, as "
        "a replica of an older configuration that is still stopping.",
        "warning" if _is_young(deployment, snapshot) else "error",
    )


def _is_young(deployment: Deployment, snapshot: Snapshot) -> bool:
    """Ray may only be slow: it counts what a replica takes from the moment that it begins to start it."""
    now = datetime.fromisoformat(snapshot.taken).timestamp()
    waiting = [now - r.since for r in deployment.replicas if r.state == "STARTING"]
    return bool(waiting) and max(waiting) < _PATIENCE


def _amounts(needs: Counter[str]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in needs.items() if amount)


def _needs(written: str) -> Counter[str]:
    """What one replica takes, from Serve's JSON: of an actor, or of the bundles of its placement
    group."""
    try:
        parsed = json.loads(written)
    except ValueError:
        return Counter()
    total: Counter[str] = Counter()
    for bundle in parsed if isinstance(parsed, list) else [parsed]:
        total.update({str(key): float(value) for key, value in mapping(bundle).items()})
    return total


def _offer(group: Json) -> Counter[str]:
    """What one pod of a group offers in Ray's books."""
    known = Group("", "", group)
    return Counter({"CPU": known.cpus, "GPU": known.gpus, **known.custom_resources})


def failed(snapshot: Snapshot) -> Iterator[Trouble]:
    """What is not an engine's: the ingress, and the application before it has deployments."""
    for application in applications(snapshot):
        roles = [d.role for d in application.deployments if d.failed and d.role]
        others = [d for d in application.deployments if d.failed and not d.role]
        for deployment in others:
            yield of_roles(
                "RPD640",
                f"deployment {deployment.name} of application {application.name}",
                (HEAD, *ENGINES),  # it runs on a pod of any of them
                f"Ray Serve has it as {deployment.status}: {_words(deployment.message)}",
                "What the words name.",
            )
        if application.status in FAILED and not others:
            yield of_roles(
                "RPD640",
                f"application {application.name}",
                roles or [HEAD],
                f"Ray Serve has it as {application.status}: {_words(application.message)}",
                "What the words name; `raypd lint` with the same values checks the serve config "
                "against what Ray and vLLM take.",
            )


def proxies(snapshot: Snapshot) -> Iterator[Trouble]:
    """Engines that all serve, in pods whose proxy does not: no client gets there."""
    known = applications(snapshot)
    if not known or any(application.status != "RUNNING" for application in known):
        return
    for pod in snapshot.component(*ENGINES):
        if running(pod) and not ready(pod) and snapshot.age(_started(pod)) > _ANSWERS:
            yield of_release(
                "RPD646",
                name_of("pod", pod),
                "Ray Serve's application runs, and the proxy of this pod does not answer, so that the pod is "
                "not ready and no client gets there.",
                "Its log: /tmp/ray/session_latest/logs/serve/proxy_*.log in the pod. With "
                "endpoint.directStreaming it is HAProxy, which ends at once where the container may open fewer "
                "files than two and a half times RAY_SERVE_HAPROXY_MAXCONN (`ulimit -Hn`).",
            )


def _words(message: str) -> str:
    return engine_log.last_exception(message)[:_MOST] or "it says no more"


CHECKS: list[Check] = [dashboard, config_not_taken, not_placed, failed, proxies]
