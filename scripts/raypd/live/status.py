"""`raypd status`: what of a release stands where."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raypd import engine_log
from raypd.live.applications import Application, Deployment, Replica, applications
from raypd.live.diagnosis import diagnose
from raypd.live.diagnosis.scheduling import awaits_node
from raypd.live.diagnosis.trouble import several
from raypd.live.progress import endpoint, serves
from raypd.live.snapshot import (
    HEAD,
    Json,
    Snapshot,
    component_of,
    containers,
    ending,
    labels,
    log_files,
    ready,
    running,
    take,
    unschedulable,
)
from raypd.report import Finding, Output

_PLAIN_WIDTH = 160  # of the tables where no terminal says how wide it is


@dataclass(frozen=True)
class PodState:
    """One pod: `doing` as "ready", "pulls IMAGE" or "waits for the head"; `seconds` since it was
    made; `restarts` of all its containers; `node` "" while it has none."""

    component: str
    name: str
    node: str
    ready: bool
    restarts: int
    doing: str
    seconds: int


@dataclass(frozen=True)
class DeploymentState:
    """One deployment of Ray Serve: `running` of `target` replicas answer, and `doing` is what each
    of the others does and for how long; `target` is None where only KubeRay's view is known."""

    name: str
    status: str
    running: int
    target: int | None
    doing: list[str]


@dataclass(frozen=True)
class ApplicationState:
    """One application of Ray Serve, with its status as Serve has it."""

    name: str
    status: str
    deployments: list[DeploymentState]


@dataclass(frozen=True)
class Standing:
    """A release. `state` is "absent", "loading", "failed" or "serving"; a release that serves can
    still have findings, as a second replica that does not come up. `endpoint` is the API's URL
    inside the cluster, `not_seen` what the user may not read."""

    release: str
    namespace: str
    state: str
    rayservice: str | None
    clusters: list[str]
    endpoint: str | None
    pods: list[PodState]
    applications: list[ApplicationState]
    findings: list[Finding]
    not_seen: list[str]


def run(
    release: str, namespace: str, kubeconfig: Path | None, context: str | None, output: Output
) -> int:
    """Prints how the release stands; 0 when it serves, else 1."""
    from raypd.live.cluster import Cluster

    now = standing(take(Cluster(kubeconfig, context), release, namespace))
    if output == "json":
        whole = {**asdict(now), "findings": [f.model_dump() for f in now.findings]}
        print(json.dumps(whole, indent=2))
    else:
        _print(now)
    return 0 if now.state == "serving" else 1


def standing(snapshot: Snapshot) -> Standing:
    """How the release stands in the snapshot."""
    findings = diagnose(snapshot)
    rayservice = snapshot.rayservice
    if serves(snapshot):
        state = "serving"
    elif rayservice is None and snapshot.helm is None:
        state = "absent"
    else:
        state = "failed" if any(f.severity == "error" for f in findings) else "loading"
    return Standing(
        release=snapshot.release,
        namespace=snapshot.namespace,
        state=state,
        rayservice=rayservice["metadata"]["name"] if rayservice else None,
        clusters=snapshot.ray_clusters(),
        endpoint=f"{endpoint(rayservice)}/v1" if rayservice and state == "serving" else None,
        pods=[_pod(pod, snapshot) for pod in sorted(snapshot.pods, key=_place)],
        applications=[_application(a, snapshot) for a in applications(snapshot)],
        findings=findings,
        not_seen=list(snapshot.unseen),
    )


def headline(now: Standing) -> str:
    """One line: the state, and while it loads what the engines do."""
    where = f"{now.release} in {now.namespace}: {now.state}"
    if now.state != "loading":
        return f"{where} at {now.endpoint}" if now.endpoint else where
    doing = "; ".join(
        f"{deployment.name} {several(deployment.doing, '; ')}"
        for application in now.applications
        for deployment in application.deployments
        if deployment.doing
    )
    return f"{where} ({doing})" if doing else where


def _place(pod: Json) -> tuple[bool, str, str]:
    """The head first, then by component."""
    return component_of(pod) != HEAD, component_of(pod), pod["metadata"]["name"]


def _pod(pod: Json, snapshot: Snapshot) -> PodState:
    metadata = pod["metadata"]
    return PodState(
        component=component_of(pod) or labels(pod).get("app.kubernetes.io/name", ""),
        name=metadata["name"],
        node=pod["spec"].get("nodeName", ""),
        ready=ready(pod),
        restarts=sum(container.get("restartCount", 0) for container in containers(pod)),
        doing=_doing(pod, snapshot),
        seconds=round(snapshot.age(metadata["creationTimestamp"])),
    )


def _doing(pod: Json, snapshot: Snapshot) -> str:
    if ending(pod):
        return "ends"
    if unschedulable(pod) is not None:
        coming = " that is being made" if awaits_node(pod, snapshot) else ""
        return f"waits for a node{coming}"
    if ready(pod):
        return "ready"
    for container in containers(pod):
        state = container.get("state") or {}
        if "running" in state and container["name"] == "wait-gcs-ready":
            return "waits for the head"
        if "terminated" in state and state["terminated"]["exitCode"] != 0:
            return state["terminated"].get("reason") or "Error"
        waiting = (state.get("waiting") or {}).get("reason", "")
        if waiting not in ("", "PodInitializing", "ContainerCreating"):
            return waiting
    if pulled := _pulls(pod, snapshot):
        return pulled
    if not running(pod):
        return "starts" if pod["status"].get("phase") == "Pending" else pod["status"]["phase"]
    return "starts Ray" if component_of(pod) == HEAD else "runs, no proxy of Ray Serve yet"


def _pulls(pod: Json, snapshot: Snapshot) -> str | None:
    """The image that is being pulled, and for how long."""
    events = snapshot.events_of(pod, "Pulling", "Pulled", "Failed", "BackOff")
    if not events or events[0]["reason"] != "Pulling":
        return None
    image = re.search(r'"([^"]+)"', events[0]["message"])
    # An image that is pulled again counts up in the same event.
    seconds = round(snapshot.age(events[0].get("lastTimestamp") or snapshot.taken))
    return f"pulls {image[1] if image else 'its image'} for {seconds} s"


def _application(application: Application, snapshot: Snapshot) -> ApplicationState:
    parts = [_deployment(application.name, d, snapshot) for d in application.deployments]
    return ApplicationState(application.name, application.status, parts)


def _deployment(application: str, deployment: Deployment, snapshot: Snapshot) -> DeploymentState:
    replicas = deployment.replicas
    others = [replica for replica in replicas if replica.state != "RUNNING"]
    doing = [_replica(f"{application}:{deployment.name}", r, snapshot) for r in others]
    if deployment.target is not None and not deployment.failed:
        doing += ["waits for a place"] * (deployment.target - len(replicas))
    return DeploymentState(
        deployment.name,
        deployment.status,
        len(replicas) - len(others),
        deployment.target,
        doing,
    )


def _replica(actor: str, replica: Replica, snapshot: Snapshot) -> str:
    """What a replica that does not answer yet does. `actor` is its name in Ray without the prefix."""
    now = datetime.fromisoformat(snapshot.taken).timestamp()
    seconds = f"for {now - replica.since:.0f} s"
    if replica.state != "STARTING":
        return f"{replica.state.lower()} {seconds}"
    if not replica.pod:
        return f"waits for a place {seconds}"
    files = log_files(snapshot.engine_logs.get(replica.pod, ""))
    own = [text for name, text in files if replica.worker and replica.worker in name]
    own = own or [text for _, text in files if f":actor_name:ServeReplica:{actor}\n" in text]
    phase = engine_log.phase("\n".join(own)) or "starts"
    return f"{phase} {seconds}"


def _print(now: Standing) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    colour = {"serving": "green", "loading": "yellow", "failed": "red", "absent": "red"}[now.state]
    console.print(
        f"[bold]{escape(now.release)}[/bold] in {escape(now.namespace)}: "
        f"[bold {colour}]{now.state}[/bold {colour}]"
        f"{f' at {escape(now.endpoint)}' if now.endpoint else ''}"
    )
    if now.rayservice:
        clusters = ", ".join(now.clusters) or "none yet"
        console.print(f"RayService {now.rayservice}, Ray cluster {clusters}")
    if now.pods:
        pods = _table("pod", "node", "ready", "restarts", "age", "now")
        for pod in now.pods:
            pods.add_row(
                f"{pod.component} {pod.name}",
                pod.node or "-",
                "yes" if pod.ready else "no",
                str(pod.restarts),
                _age(pod.seconds),
                escape(pod.doing),
            )
        console.print(pods)
    for application in now.applications:
        console.print(f"Ray Serve's application {escape(application.name)}: {application.status}")
        deployments = _table("deployment", "status", "replicas", "now")
        for part in application.deployments:
            target = "?" if part.target is None else part.target
            running_of = f"{part.running}/{target}"
            doing = escape(several(part.doing, "; "))
            deployments.add_row(escape(part.name), part.status, running_of, doing)
        console.print(deployments)
    for finding in now.findings:
        console.print(
            f"[bold]{finding.code}[/bold] {escape(finding.path)}: {escape(finding.message)}"
        )
    if now.findings:
        console.print("`raypd doctor` says what to do.", style="cyan")
    if now.not_seen:
        console.print(f"Not seen, for want of rights: {escape(', '.join(now.not_seen))}.")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _age(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172800 else f"{seconds // 86400} d"
