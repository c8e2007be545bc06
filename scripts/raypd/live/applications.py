"""Ray Serve's applications, from the dashboard's document or as KubeRay saw them last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raypd.live.snapshot import ENGINES, HEAD, Json, Snapshot, ending

FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
# Names of the deployments that hold engines are "<class>:<model id>".
_ROLES = {"Prefill": "prefill", "Decode": "decode", "LLMServer": "engine"}


@dataclass(frozen=True)
class Replica:
    """`state` as "STARTING" or "RUNNING"; `pod` is the name of the pod that holds it, "" while it
    has none; `worker` Ray's id of its process; `since` when it was made, in epoch seconds."""

    id: str
    state: str
    pod: str
    worker: str
    since: float


@dataclass(frozen=True)
class Deployment:
    """`status` as "UPDATING" or "HEALTHY", `message` Serve's words; `target` replicas are wanted,
    None when nobody says how many. `dead` are replicas that ended not long ago. There are no
    replicas where only KubeRay's view is known."""

    name: str
    status: str
    message: str
    target: int | None
    replicas: list[Replica]
    dead: list[Replica]

    @property
    def role(self) -> str | None:
        """The component whose pods run it: "prefill", "decode", "engine"; None for the ingress."""
        return _ROLES.get(self.name.partition(":")[0])

    @property
    def failed(self) -> bool:
        """It cannot come up, or a replica has failed and Serve tries again."""
        return self.status in FAILED or "Error:\n" in self.message or "Traceback" in self.message


@dataclass(frozen=True)
class Application:
    """`status` as "DEPLOYING", "RUNNING", "DEPLOY_FAILED" or "UNHEALTHY"."""

    name: str
    status: str
    message: str
    deployments: list[Deployment]


def applications(snapshot: Snapshot) -> list[Application]:
    """All applications of the release; [] before Serve has any."""
    if snapshot.serve is not None:
        pods = {pod["status"].get("podIP"): pod["metadata"]["name"] for pod in _ray_pods(snapshot)}
        return [
            Application(
                name,
                application["status"],
                application.get("message") or "",
                [_deployment(*entry, pods) for entry in application["deployments"].items()],
            )
            for name, application in (snapshot.serve.get("applications") or {}).items()
        ]
    return _seen_by_kuberay(snapshot)


def spare_pods(snapshot: Snapshot, role: str, engines: int) -> list[str] | None:
    """Names of the role's pods that hold no engine; None while that is not settled, because Serve
    cannot be asked or has not come down to that number of engines."""
    if snapshot.serve is None:
        return None
    held = [
        replica.pod
        for application in applications(snapshot)
        for deployment in application.deployments
        if deployment.role == role
        for replica in deployment.replicas
    ]
    if len(held) != engines or "" in held:
        return None
    pods = [pod["metadata"]["name"] for pod in snapshot.component(role) if not ending(pod)]
    return [name for name in pods if name not in held]


def _deployment(name: str, written: Json, pods: dict[Any, str]) -> Deployment:
    return Deployment(
        name,
        written["status"],
        written.get("message") or "",
        written.get("target_num_replicas"),
        _replicas(written.get("replicas"), pods),
        _replicas(written.get("recent_dead_replicas"), pods),
    )


def _replicas(written: list[Json] | None, pods: dict[Any, str]) -> list[Replica]:
    return [
        Replica(
            replica["replica_id"],
            replica["state"],
            pods.get(replica.get("node_ip"), ""),
            replica.get("worker_id") or "",
            replica["start_time_s"],
        )
        for replica in written or []
    ]


def _seen_by_kuberay(snapshot: Snapshot) -> list[Application]:
    """Of the cluster that serves, else of the one that is being made."""
    status = (snapshot.rayservice or {}).get("status") or {}
    for key in ("activeServiceStatus", "pendingServiceStatus"):
        found = (status.get(key) or {}).get("applicationStatuses") or {}
        if found:
            return [
                Application(
                    name,
                    application.get("status", ""),
                    application.get("message", ""),
                    [
                        Deployment(part, d.get("status", ""), d.get("message", ""), None, [], [])
                        for part, d in (application.get("serveDeploymentStatuses") or {}).items()
                    ],
                )
                for name, application in found.items()
            ]
    return []


def _ray_pods(snapshot: Snapshot) -> list[Json]:
    return snapshot.component(HEAD, *ENGINES)
