"""Containers that cannot be started, end, or do not pass their probes (RPD63x).

Words of Kubernetes 1.35 (pkg/kubelet) and runc; KubeRay 1.6.2 makes commands, init containers and
probes (controllers/ray/common/pod.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd import engine_log
from raypd.live.diagnosis.errors import explain
from raypd.live.diagnosis.trouble import ALL, Check, Trouble, of_pod
from raypd.live.snapshot import (
    HEAD,
    PREFETCH,
    Json,
    Snapshot,
    component_of,
    containers,
    ready,
    running,
    time_of,
)

_RECENT = 600  # seconds after which the end of a container that runs again is history
_WAITS = 180  # seconds that a worker may wait for a head that is ready

_NO_OBJECT = re.compile(r'(secret|configmap) "([^"]+)" not found')
_NO_KEY = re.compile(r"couldn't find key (\S+) in (Secret|ConfigMap) [^/]+/(\S+)")
# Of runc for a command, of the shell for a program inside it.
_NO_PROGRAM = re.compile(
    r'exec: "([^"]+)": (?:executable file not found|stat [^:]+: no such file)'
    r"|(?:line \d+: |sh: \d+: )([\w./-]+): (?:command )?not found"
)
# Ray's C++ (src/ray/util/logging.cc): "[time C pid thread] file.cc:1: ... Check failed: ... Status not
# OK: words", and then a stack.
_FATAL = re.compile(
    r"^\[[^\]]* C \d+ \d+\] (?:.*Status not OK: |.*Check failed: )?(.+?)\s*$", re.MULTILINE
)
# Ray 2.58, _private/node.py: a raylet that is not up within 30 s ends the container, and the next try
# goes through as a rule, with the image's files in the node's memory.
_SLOW_START = "The current node timed out during startup"
_TRIES = 3  # after which a slow start is no matter of patience any more
_NO_ADDRESS = re.compile(r"failed to assign an IP address|InsufficientFreeAddresses")
_NOT_STARTED = (
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
)


def not_configured(snapshot: Snapshot) -> Iterator[Trouble]:
    """Secrets and config maps that are named but not there, in the environment or as volumes."""
    for pod in snapshot.alive():
        words = [
            waiting.get("message") or ""
            for container in containers(pod)
            if (waiting := (container.get("state") or {}).get("waiting") or {}).get("reason")
            == "CreateContainerConfigError"
        ]
        if not words and not any("running" in (c.get("state") or {}) for c in containers(pod)):
            mounts = [event["message"] for event in snapshot.events_of(pod, "FailedMount")]
            words = [message for message in mounts if _NO_OBJECT.search(message)]
        if words:
            yield _missing(pod, words[0], snapshot)


def _missing(pod: Json, words: str, snapshot: Snapshot) -> Trouble:
    namespace = snapshot.namespace
    if found := _NO_OBJECT.search(words):
        kind, name = found[1], found[2]
        keys = _keys(pod, kind, name) or ["KEY"]
        make = "create secret generic" if kind == "secret" else "create configmap"
        options = " ".join(f"--from-literal={key}=..." for key in keys)
        return of_pod(
            "RPD630",
            pod,
            f"It needs the {kind} {name}, which is not in namespace {namespace}.",
            f"`kubectl -n {namespace} {make} {name} {options}`; the pod goes on by itself then.",
        )
    if found := _NO_KEY.search(words):
        key, kind, name = found[1], found[2].lower(), found[3]
        return of_pod(
            "RPD630",
            pod,
            f"It needs the key {key} of the {kind} {name}, which has no such key.",
            f"That key in the {kind}, or the name of the key that it has: for the Hugging Face token "
            "huggingface.existingSecret.key.",
        )
    return of_pod(
        "RPD639", pod, f"A container cannot be configured: {words}", "What the words name."
    )


def _keys(pod: Json, kind: str, name: str) -> list[str]:
    """The keys of the object that the pod's environment asks for."""
    source = "secretKeyRef" if kind == "secret" else "configMapKeyRef"
    found = [
        reference["key"]
        for section in ("initContainers", "containers")
        for container in pod["spec"].get(section) or []
        for variable in container.get("env") or []
        if (reference := (variable.get("valueFrom") or {}).get(source))
        and reference["name"] == name
    ]
    return list(dict.fromkeys(found))


def not_started(snapshot: Snapshot) -> Iterator[Trouble]:
    """The runtime or the network refuses the pod, or the kubelet has put it out."""
    for pod in snapshot.alive():
        status = pod["status"]
        if status.get("phase") == "Failed" and status.get("reason"):
            yield of_pod(
                "RPD638",
                pod,
                f"The kubelet has put the pod out ({status['reason']}): "
                f"{status.get('message') or 'it says no more'}",
                "More of what ran out on the node: a larger disk or ephemeralStorage requests for "
                "storage, a larger instance type for memory.",
            )
            continue
        for container in containers(pod):
            waiting = (container.get("state") or {}).get("waiting") or {}
            words = waiting.get("message") or ""
            if waiting.get("reason") not in _NOT_STARTED:
                continue
            if program := _program(words):
                yield _lacks(pod, container, program)
            else:
                yield of_pod(
                    "RPD639",
                    pod,
                    f"The container {container['name']} cannot be started: {words}",
                    "What the words name.",
                )
        if not containers(pod) or not any("containerID" in c for c in containers(pod)):
            yield from _no_sandbox(pod, snapshot)


def _no_sandbox(pod: Json, snapshot: Snapshot) -> Iterator[Trouble]:
    events = snapshot.events_of(pod, "FailedCreatePodSandBox")
    if not events:
        return
    words = events[0]["message"]
    remedy = "The CNI plugin's pod on that node."
    if _NO_ADDRESS.search(words):
        remedy = (
            "Addresses: a larger subnet, or prefix delegation of the VPC CNI "
            "(ENABLE_PREFIX_DELEGATION)."
        )
    yield of_pod(
        "RPD639",
        pod,
        f"The pod gets no network on node {pod['spec'].get('nodeName')}: {words}",
        remedy,
    )


def ended(snapshot: Snapshot) -> Iterator[Trouble]:
    """Containers that ended badly and are not back, or have not been for long."""
    found = [
        trouble
        for pod in snapshot.alive()
        if (trouble := next(_ends(pod, snapshot), None))  # other containers wait for it or follow
    ]
    # A worker that loses Ray's head ends as well, with nothing to say about itself.
    without_head = any(trouble.stops == ALL for trouble in found)
    yield from (t for t in found if not (without_head and t.stops != ALL and t.code == "RPD632"))


def _ends(pod: Json, snapshot: Snapshot) -> Iterator[Trouble]:
    for container in containers(pod):
        last = _last_end(container)
        if last is None or last["exitCode"] == 0 or _recovered(pod, container, last, snapshot):
            continue
        log = _log(pod, container, snapshot)
        if _SLOW_START not in log or container.get("restartCount", 0) >= _TRIES:
            yield _why_ended(pod, container, last, log, snapshot)


def _last_end(container: Json) -> Json | None:
    now, before = container.get("state") or {}, container.get("lastState") or {}
    return now.get("terminated") or before.get("terminated")


def _recovered(pod: Json, container: Json, last: Json, snapshot: Snapshot) -> bool:
    if "running" not in (container.get("state") or {}):
        return False
    return ready(pod) or snapshot.age(_when(last, snapshot)) > _RECENT


def _when(last: Json, snapshot: Snapshot) -> str:
    """When a container ended; now, where its node was lost and nobody knows."""
    return last.get("finishedAt") or snapshot.taken


def _log(pod: Json, container: Json, snapshot: Snapshot) -> str:
    return snapshot.crash_logs.get(f"{pod['metadata']['name']}/{container['name']}", "")


def _why_ended(pod: Json, container: Json, last: Json, log: str, snapshot: Snapshot) -> Trouble:
    name = container["name"]
    times = container.get("restartCount", 0)
    if last.get("reason") == "OOMKilled":
        limit = _memory_limit(pod, name)
        return of_pod(
            "RPD631",
            pod,
            f"The container {name} was killed for taking more memory than its limit"
            f"{f' of {limit}' if limit else ''} (restarts: {times}).",
            "More in {role}.resources.memory, which /dev/shm is part of ({role}.sharedMemory)."
            if name in ("ray-head", "ray-worker")
            else f"A higher memory limit of the container {name}.",
        )
    words = last.get("message") or log
    if program := _program(words):
        return _lacks(pod, container, program)
    killed = [
        event
        for event in snapshot.events_of(pod, "Killing")
        if f"{name} failed liveness probe" in event["message"]
    ]
    if (
        killed
        and abs(snapshot.age(time_of(killed[0])) - snapshot.age(last["finishedAt"])) < _RECENT
    ):
        probe = [e for e in snapshot.events_of(pod, "Unhealthy") if "Liveness" in e["message"]]
        return of_pod(
            "RPD637",
            pod,
            f"Kubernetes restarts the container {name} because its liveness probe fails "
            f"(restarts: {times}): {probe[0]['message'] if probe else killed[0]['message']}",
            "More CPU for it ({role}.resources.cpu) where it is only slow; else what its log says: "
            f"`kubectl -n {snapshot.namespace} logs {{pod}} -c {name} --previous`.",
        )
    said = _last_words(log)
    if "Failed to connect to Redis" in said:
        return of_pod(
            "RPD632",
            pod,
            f"Ray's head ends because it cannot reach its Redis (restarts: {times}): {said}",
            "The Redis of gcsFaultTolerance.redisAddress: whether it runs, its name and port, its "
            "password, and whether a NetworkPolicy keeps the head from it.",
            "warning" if times < _TRIES else "error",
        )
    # The prefetch job downloads the model as an engine would.
    if component_of(pod).startswith(PREFETCH) and (known := explain(log)):
        return of_pod(known.code, pod, f"{known.message} The container: {said}", known.remedy)
    return of_pod(
        "RPD632",
        pod,
        f"The container {name} ends with code {last['exitCode']} (restarts: {times})"
        f"{f': {said}' if said else ', and says nothing about it'}",
        "What the words name. All of them: "
        f"`kubectl -n {snapshot.namespace} logs {{pod}} -c {name}"
        f"{' --previous' if 'terminated' not in (container.get('state') or {}) else ''}`.",
    )


def _last_words(log: str) -> str:
    """The last exception of a log, what Ray's own code says when it gives up, or the last lines that
    say something."""
    before, trace, _ = log.rpartition("*** StackTrace Information ***")
    if trace and (fatal := _FATAL.findall(before)):
        return str(fatal[-1])
    lines = [line for line in log.splitlines() if line.strip()]
    found = engine_log.last_exception("\n".join(lines))
    return found if len(found.splitlines()) < len(lines) else " / ".join(lines[-2:])


def _memory_limit(pod: Json, name: str) -> str | None:
    for section in ("initContainers", "containers"):
        for container in pod["spec"].get(section) or []:
            if container["name"] == name:
                return ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return None


def _program(words: str) -> str | None:
    found = _NO_PROGRAM.search(words)
    return (found[1] or found[2]) if found else None


def _lacks(pod: Json, container: Json, program: str) -> Trouble:
    return of_pod(
        "RPD633",
        pod,
        f"The image {container['image']} lacks the program {program}, which the container "
        f"{container['name']} needs.",
        "An image with Ray, vLLM and NIXL, and with bash and wget, which KubeRay's commands and "
        "probes use (image.repository, image.tag).",
    )


def probes_cannot_run(snapshot: Snapshot) -> Iterator[Trouble]:
    """Probes that fail for a program that is not in the image, for ever.

    That a worker is not ready is else no trouble of its own: its probe waits for Ray Serve's proxy,
    which comes with the first replica there.
    """
    for pod in snapshot.alive():
        if not running(pod) or ready(pod):
            continue
        for event in snapshot.events_of(pod, "Unhealthy"):
            if program := _program(event["message"]):
                yield _lacks(pod, _container_of(pod, event), program)
                break


def _container_of(pod: Json, event: Json) -> Json:
    """The status of the container that an event is about ("spec.containers{ray-worker}")."""
    path = event["involvedObject"].get("fieldPath", "")
    own = [c for c in containers(pod) if f"{{{c['name']}}}" in path]
    return (own or containers(pod))[0]


def head_not_reached(snapshot: Snapshot) -> Iterator[Trouble]:
    """Workers whose init container finds no head although there is one that is ready."""
    head = snapshot.head()
    if head is None or not ready(head):
        return
    for pod in snapshot.alive():
        for container in containers(pod):
            since = ((container.get("state") or {}).get("running") or {}).get("startedAt")
            if container["name"] != "wait-gcs-ready" or not since or component_of(pod) == HEAD:
                continue
            if snapshot.age(since) > _WAITS:
                yield of_pod(
                    "RPD636",
                    pod,
                    f"It has waited for {snapshot.age(since):.0f} s for Ray's head, which is ready.",
                    "The way between them: a NetworkPolicy in the namespace (networkPolicy), DNS "
                    "(does CoreDNS run?), and the same Ray in both images.",
                )


CHECKS: list[Check] = [not_configured, not_started, ended, probes_cannot_run, head_not_reached]
