"""How a release stands at one moment, as plain data: what the API server, Ray Serve and the engines'
logs say about it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx

from raypd.engine_log import last_exception
from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

TIME = "%Y-%m-%dT%H:%M:%SZ"  # as Kubernetes writes it
DASHBOARD_PORT = 8265
SERVE_PORT = 8000
SERVE_URL = "/api/serve/applications/"
RAY_API = "/apis/ray.io/v1"
HEAD, ENGINES, TEST = "head", ("prefill", "decode", "engine"), "test"
PREFETCH = "prefetch-"  # and the role, of the jobs that fill the caches

# The engines are processes that Ray starts: what they write is in Ray's files and not in the
# container's log. Files that were written to last, the newest first, as a failed replica leaves its
# own; of each the first lines, in which Ray says whose log it is, and the end.
_FIRST_LINES, _LAST_LINES, _LAST_BYTES, _LOG_FILES = 2, 400, 60_000, 12
_READ_LOGS = (
    "cd /tmp/ray/session_latest/logs || exit 0; "
    f"for log in $(ls -t worker-*.out worker-*.err 2>/dev/null | head -n {_LOG_FILES}); do "
    f'echo "==> $log <=="; head -n {_FIRST_LINES} "$log"; '
    f'tail -n +{_FIRST_LINES + 1} "$log" | tail -n {_LAST_LINES} | tail -c {_LAST_BYTES}; done'
)
_CRASH_LINES = 80
_READERS = 8


@dataclass(frozen=True)
class Snapshot:
    """Kubernetes objects as in their YAML, and texts; nothing of a client library.

    `taken` is the time in Kubernetes' form ("2026-01-31T12:00:00Z"). `helm` has the labels of the
    release's newest revision (name, status, version), None when Helm knows no such release.
    `crd` tells that the cluster knows RayServices, `operator` is KubeRay's Deployment and
    `operator_space` its Namespace. `policies` are all NetworkPolicies of the namespace. `pods` are the release's, `neighbours` all pods that are bound to a node, read only while a pod of the
    release waits for one. `serve` is the dashboard's document of applications; when it is None,
    `serve_unreachable` says why. `engine_logs` is by pod: ends of the logs of Ray's worker
    processes, each after a line "==> file <==". `crash_logs` is by "pod/container": the end of the
    run that ended badly. `unseen` says which parts are missing because the user may not read them.
    """

    release: str
    namespace: str
    taken: str
    helm: dict[str, str] | None = None
    crd: bool = True
    operator: Json | None = None
    operator_space: Json | None = None
    rayservice: Json | None = None
    rayclusters: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    neighbours: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    daemonsets: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    jobs: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    policies: list[Json] = field(default_factory=list)
    serve: Json | None = None
    serve_unreachable: str | None = None
    engine_logs: dict[str, str] = field(default_factory=dict)
    crash_logs: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)

    def component(self, *names: str) -> list[Json]:
        """The pods of the given components: "head", "prefill", "decode", "engine", "test"..."""
        return [pod for pod in self.pods if component_of(pod) in names]

    def alive(self) -> list[Json]:
        """The release's pods that are to work: not those that end, that of `helm test`, or those of
        a job that is complete."""
        done = {
            job["metadata"]["name"]
            for job in self.jobs
            for condition in (job.get("status") or {}).get("conditions") or []
            if condition["type"] == "Complete" and condition["status"] == "True"
        }
        return [
            pod
            for pod in self.pods
            if not ending(pod)
            and component_of(pod) != TEST
            and not any(o["name"] in done for o in pod["metadata"].get("ownerReferences") or [])
        ]

    def age(self, stamp: str) -> float:
        """Seconds from a time in Kubernetes' form to the snapshot."""
        # Events have microseconds where objects have none.
        return (datetime.fromisoformat(self.taken) - datetime.fromisoformat(stamp)).total_seconds()

    def events_of(self, item: Json | None, *reasons: str) -> list[Json]:
        """Events about an object with one of the reasons (any, if none is given), the newest first."""
        if item is None:
            return []
        uid, name = item["metadata"].get("uid"), item["metadata"]["name"]
        found = [
            event
            for event in self.events
            # Objects that were made anew under the same name have other events.
            if event["involvedObject"].get("uid", uid) == uid
            and event["involvedObject"].get("name") == name
            and (not reasons or event["reason"] in reasons)
        ]
        return sorted(found, key=time_of, reverse=True)

    def head(self) -> Json | None:
        """The pod of the head that serves, or is to serve: of KubeRay's active cluster, else of its
        pending one; of several the newest."""
        heads = sorted(self.component(HEAD), key=lambda pod: pod["metadata"]["creationTimestamp"])
        for cluster in self.ray_clusters():
            of_cluster = [p for p in heads if labels(p).get("ray.io/cluster") == cluster]
            if of_cluster:
                return of_cluster[-1]
        return heads[-1] if heads else None

    def ray_clusters(self) -> list[str]:
        """Names of the RayClusters that KubeRay serves from and prepares, in this order."""
        status = (self.rayservice or {}).get("status") or {}
        names = [
            (status.get(key) or {}).get("rayClusterName")
            for key in ("activeServiceStatus", "pendingServiceStatus")
        ]
        return [name for name in names if name]


def time_of(event: Json) -> str:
    """When an event was seen last, in Kubernetes' form."""
    series = event.get("series") or {}
    stamps = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((s for s in stamps if s), None) or event["metadata"]["creationTimestamp"]


def labels(item: Json) -> dict[str, str]:
    """Labels of an object, {} when it has none."""
    return item["metadata"].get("labels") or {}


def component_of(pod: Json) -> str:
    """What of the chart a pod is, "" when it does not say so."""
    return labels(pod).get("app.kubernetes.io/component", "")


def block_of(pod: Json) -> str:
    """The block of the values that a pod is set by: "head", "prefill"... A job that fills a role's
    cache runs where the role does."""
    return component_of(pod).removeprefix(PREFETCH)


def containers(pod: Json) -> list[Json]:
    """The statuses of a pod's containers, those of its init containers first."""
    status = pod.get("status") or {}
    return [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]


def unschedulable(pod: Json) -> str | None:
    """What the scheduler says about a pod that it finds no node for, else None."""
    for condition in pod["status"].get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return condition.get("message") or ""
    return None


def ready(pod: Json) -> bool:
    """All its containers pass their probes."""
    return _ready(pod).get("status") == "True"


def ready_since(pod: Json) -> str:
    """When a pod that is ready became so."""
    return _ready(pod)["lastTransitionTime"]


def _ready(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == "Ready"), {})


def ending(pod: Json) -> bool:
    """Somebody has asked for its end."""
    return "deletionTimestamp" in pod["metadata"]


def log_files(text: str) -> list[tuple[str, str]]:
    """One pod's entry of `engine_logs`, taken apart: name of each file and what is kept of it."""
    parts = re.split(r"^==> (.+) <==$\n?", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def running(pod: Json) -> bool:
    """Its containers have started, and nobody has asked for its end."""
    return (pod.get("status") or {}).get("phase") == "Running" and not ending(pod)


def take(cluster: Cluster, release: str, namespace: str) -> Snapshot:
    """Reads the release once. What the user may not read is left out and named in `unseen`.

    Raises UsageError when the server cannot be reached or does not accept the credentials.
    """
    reader = _Reader(cluster)
    instance = f"app.kubernetes.io/instance={release}"
    inside = f"namespaces/{namespace}"
    crd, rayservice = _rayservice(reader, f"{RAY_API}/{inside}/rayservices", instance)
    pods = reader.list("pods", f"/api/v1/{inside}/pods", instance)
    waiting = any("nodeName" not in pod["spec"] for pod in pods)
    everywhere = reader.list("pods of all namespaces", "/api/v1/pods") if waiting else []
    known = Snapshot(
        release=release,
        namespace=namespace,
        taken=datetime.now(UTC).strftime(TIME),
        helm=_helm(reader, release, inside),
        crd=crd,
        operator=(operator := _operator(reader)),
        operator_space=_space_of(reader, operator),
        rayservice=rayservice,
        rayclusters=reader.list("RayClusters", f"{RAY_API}/{inside}/rayclusters", instance),
        pods=pods,
        neighbours=[_claimed(pod) for pod in everywhere if "nodeName" in pod["spec"]],
        nodes=reader.list("nodes", "/api/v1/nodes"),
        daemonsets=reader.list("DaemonSets", "/apis/apps/v1/daemonsets"),
        # The API server leaves empty texts out.
        events=[
            {"reason": "", "message": "", **event}
            for event in reader.list("events", f"/api/v1/{inside}/events")
        ],
        jobs=reader.list("jobs", f"/apis/batch/v1/{inside}/jobs", instance),
        claims=reader.list("volume claims", f"/api/v1/{inside}/persistentvolumeclaims"),
        policies=reader.list(
            "network policies", f"/apis/networking.k8s.io/v1/{inside}/networkpolicies"
        ),
    )
    serve, unreachable = _serve(cluster, known)
    return replace(
        known,
        serve=serve,
        serve_unreachable=unreachable,
        engine_logs=_engine_logs(reader, known),
        crash_logs=_crash_logs(reader, known),
        unseen=reader.unseen,
    )


class _Reader:
    """Reads, and remembers what the user may not."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.unseen: dict[str, str] = {}

    def list(self, what: str, path: str, selector: str = "") -> list[Json]:
        """The items; none where the user may not read them or the cluster does not know them."""
        from raypd.live.cluster import Forbidden

        try:
            return self.cluster.list(path, selector)
        except Forbidden as refusal:
            self.unseen[what] = str(refusal)
        except LookupError:
            pass
        return []


def _rayservice(reader: _Reader, path: str, selector: str) -> tuple[bool, Json | None]:
    """Whether the cluster knows RayServices, and the release's."""
    try:
        reader.cluster.get(path, limit="1")
    except LookupError:
        return False, None
    except UsageError:
        pass  # the list says the same, and is remembered
    found = reader.list("RayServices", path, selector)
    return True, found[0] if found else None


def _helm(reader: _Reader, release: str, inside: str) -> dict[str, str] | None:
    """Labels of the secret in which Helm keeps the newest revision; its content stays unread."""
    selector = f"owner=helm,name={release}"
    revisions = reader.list("Helm's releases", f"/api/v1/{inside}/secrets", selector)
    newest = max(revisions, key=lambda secret: int(labels(secret)["version"]), default=None)
    return labels(newest) if newest else None


def _operator(reader: _Reader) -> Json | None:
    """KubeRay's Deployment, wherever it is: its chart and its manifests label it alike."""
    selector = "app.kubernetes.io/name in (kuberay, kuberay-operator)"
    found = reader.list("Deployments of all namespaces", "/apis/apps/v1/deployments", selector)
    return next((d for d in found if "operator" in d["metadata"]["name"]), None)


def _space_of(reader: _Reader, operator: Json | None) -> Json | None:
    """The Namespace that the operator is in; None where it may not be read."""
    if operator is None:
        return None
    with suppress(LookupError, UsageError):
        return reader.cluster.get(f"/api/v1/namespaces/{operator['metadata']['namespace']}")
    return None


def _claimed(pod: Json) -> Json:
    """Of a pod only what says which resources of which node it holds."""
    return {
        "metadata": {
            key: pod["metadata"][key]
            for key in ("name", "namespace", "deletionTimestamp")
            if key in pod["metadata"]
        },
        "spec": {
            "nodeName": pod["spec"]["nodeName"],
            **{
                kind: [
                    {key: c[key] for key in ("resources", "restartPolicy") if key in c}
                    for c in pod["spec"].get(kind) or []
                ]
                for kind in ("containers", "initContainers")
            },
        },
        "status": {"phase": pod["status"]["phase"]},
    }


def _serve(cluster: Cluster, known: Snapshot) -> tuple[Json | None, str | None]:
    """The dashboard's document of applications, or why there is none."""
    from raypd.live.forward import forward

    head = known.head()
    if head is None:
        return None, "there is no head pod"
    name = head["metadata"]["name"]
    if not running(head):
        return None, f"the head pod {name} is {head['status']['phase']}"
    try:
        with forward(cluster, known.namespace, name, DASHBOARD_PORT) as client:
            answer = client.get(SERVE_URL)
    except (httpx.HTTPError, UsageError, OSError) as error:
        return None, f"Ray's dashboard on {name} does not answer: {error}"
    if not answer.is_success:
        words = last_exception(answer.text)
        return None, f"Ray's dashboard on {name} answers HTTP {answer.status_code}: {words}"
    return answer.json(), None


def _engine_logs(reader: _Reader, known: Snapshot) -> dict[str, str]:
    """The ends of the worker logs of every engine pod whose container runs."""
    pods = [pod for pod in known.component(*ENGINES) if running(pod)]

    def read(pod: Json) -> tuple[str, str | None]:
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]["name"]
        try:
            command = ["sh", "-c", _READ_LOGS]
            return name, reader.cluster.exec(known.namespace, name, container, command)
        except UsageError as error:
            reader.unseen[f"engine logs of {name}"] = str(error)
            return name, None

    with ThreadPoolExecutor(_READERS) as readers:
        return {name: text for name, text in readers.map(read, pods) if text is not None}


def _crash_logs(reader: _Reader, known: Snapshot) -> dict[str, str]:
    """The last words of containers that ended badly."""
    found: dict[str, str] = {}
    for pod in known.pods:
        name = pod["metadata"]["name"]
        for container in containers(pod):
            now, before = container.get("state") or {}, container.get("lastState") or {}
            ended = [s["terminated"] for s in (now, before) if "terminated" in s]
            if ended and ended[0]["exitCode"] != 0:
                with suppress(LookupError, UsageError):
                    found[f"{name}/{container['name']}"] = reader.cluster.logs(
                        known.namespace,
                        name,
                        container["name"],
                        tail=_CRASH_LINES,
                        previous="terminated" not in now,
                    )
    return found
