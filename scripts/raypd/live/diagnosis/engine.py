"""Engines that do not come up, in the engine's own first words (RPD65x, and what errors.py knows)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd import engine_log
from raypd.live.applications import Deployment, applications
from raypd.live.diagnosis.errors import explain
from raypd.live.diagnosis.trouble import Check, Trouble, of_pod, of_roles
from raypd.live.snapshot import Json, Snapshot, log_files

_MOST = 900  # characters of an error that are told
# vLLM's side channel listens in a thread: where that dies the engine waits for it for ever and never
# says that it has failed.
_DEAD_THREAD = re.compile(r"Exception in thread nixl_handshake_listener")


def failed(snapshot: Snapshot) -> Iterator[Trouble]:
    """Deployments of engines whose replicas fail."""
    for application in applications(snapshot):
        for deployment in application.deployments:
            if deployment.role is not None and deployment.failed:
                yield from _failed(application.name, deployment, deployment.role, snapshot)


def _failed(name: str, deployment: Deployment, role: str, snapshot: Snapshot) -> Iterator[Trouble]:
    told = False
    for pod in snapshot.component(role):
        logs = _logs(pod, deployment, snapshot)
        if error := engine_log.first_error(logs):
            told = True
            yield _of_engine(pod, error[0], "\n".join(text for _, text in logs))
    if told:
        return
    where = f"deployment {deployment.name} of application {name}"
    words = engine_log.last_exception(deployment.message)
    if known := explain(deployment.message):
        message = f"{known.message} {_in_its_words(words)}"
        yield of_roles(known.code, where, [role], message, known.remedy)
    elif words != deployment.message.strip():
        yield of_roles(
            "RPD650", where, [role], f"Its engine does not start: {words[:_MOST]}", _READ
        )
    else:
        yield of_roles(
            "RPD642",
            where,
            [role],
            f"Ray Serve has it as {deployment.status}: {words[:_MOST]}",
            f"The logs of its pods: `kubectl -n {snapshot.namespace} logs POD`, and the files under "
            "/tmp/ray/session_latest/logs in them.",
        )


_READ = (
    "What the words name. The engine's whole log is in its pod, in worker-*.out and worker-*.err "
    "under /tmp/ray/session_latest/logs."
)


def _logs(pod: Json, deployment: Deployment, snapshot: Snapshot) -> list[tuple[str, str]]:
    """The files of the replica that failed last; of all workers, when it is not known which it was
    or its engine's processes write to other files."""
    files = log_files(snapshot.engine_logs.get(pod["metadata"]["name"], ""))
    gone = [r for r in deployment.dead if r.pod == pod["metadata"]["name"] and r.worker]
    last = max(gone, key=lambda replica: replica.since, default=None)
    own = [entry for entry in files if last and last.worker in entry[0]]
    return own if engine_log.first_error(own) else files


def _of_engine(pod: Json, error: str, log: str) -> Trouble:
    # NIXL raises a bare code; what it means is in a line that its library wrote before.
    known = explain(error) or (explain(log) if "NIXL_ERR" in error else None)
    if known:
        message = f"{known.message} {_in_its_words(error)}"
        return of_pod(known.code, pod, message, known.remedy)
    return of_pod("RPD650", pod, f"Its engine does not start: {error[:_MOST]}", _READ)


def _in_its_words(error: str) -> str:
    return f"The engine: {error[:_MOST]}"


def hangs(snapshot: Snapshot) -> Iterator[Trouble]:
    """Engines that wait for ever: a thread of theirs has died."""
    starting = {
        (replica.pod, replica.worker)
        for application in applications(snapshot)
        for deployment in application.deployments
        if deployment.role is not None and not deployment.failed
        for replica in deployment.replicas
        if replica.state == "STARTING" and replica.worker
    }
    for pod in snapshot.alive():
        name = pod["metadata"]["name"]
        for file, text in log_files(snapshot.engine_logs.get(name, "")):
            if not any(pod_of == name and worker in file for pod_of, worker in starting):
                continue
            if dead := _DEAD_THREAD.search(text):
                words = engine_log.thread_exception(text[dead.start() :])
                known = explain(words)
                yield of_pod(
                    known.code if known else "RPD662",
                    pod,
                    "The engine waits for ever for its KV side channel, whose thread has ended. "
                    f"{_in_its_words(words)}",
                    known.remedy if known else _READ,
                )


CHECKS: list[Check] = [failed, hangs]
