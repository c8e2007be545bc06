"""How far a release is on its way from pods to answers, read from one snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from raypd import yaml_text
from raypd.lint.contract import contract_for
from raypd.lint.subject import Group, Subject, mapping, sequence
from raypd.live.applications import applications
from raypd.live.snapshot import ENGINES, HEAD, SERVE_PORT, Snapshot, component_of, labels
from raypd.render import Rendered

Json = dict[str, Any]

# What vLLM 0.26 says when an engine's process is through with its weights, and with everything.
_LOADED = re.compile(r"Model loading took|Loading weights took")
_STARTED = re.compile(r"init engine \(profile, create kv cache, warmup model\) took")
# Its latest of these is what the engine does now.
_DOING = re.compile(
    r"Starting to load model|Loading safetensors checkpoint shards:\s+\d+%"
    r"|Time spent downloading weights|torch\.compile took|Graph capturing finished"
)


@dataclass(frozen=True)
class Stage:
    """One stage: `done` of `total` things are through it, and `detail` says what the others do."""

    name: str
    done: int
    total: int
    detail: str = ""

    @property
    def complete(self) -> bool:
        return 0 < self.total <= self.done


def stages(snapshot: Snapshot, engines_start: bool = True) -> list[Stage]:
    """The stages in their order; a later one can be complete before an earlier one is.

    `engines_start` is False after an upgrade that starts no pods: what the logs say of loading then
    tells of the engines before, so the two stages of loading are left out.
    """
    pods = _pods(snapshot)
    ray = [pod for pod in pods if component_of(pod) in (HEAD, *ENGINES)]
    engines = [pod for pod in pods if component_of(pod) in ENGINES]
    total = max(len(ray), _expected(snapshot, head=True))
    loading = max(len(engines), _expected(snapshot, head=False))
    logs = {_name(pod): snapshot.engine_logs.get(_name(pod), "") for pod in engines}
    found = [
        _counted("pods scheduled", ray, _is_scheduled, total),
        _counted("images pulled", ray, _has_images, total),
        _counted("containers started", ray, _has_started, total),
    ]
    if engines_start:
        loaded = [name for name, text in logs.items() if _LOADED.search(text)]
        started = [name for name, text in logs.items() if _STARTED.search(text)]
        doing = _doing({name: text for name, text in logs.items() if name not in started})
        found += [
            Stage("weights loaded", len(loaded), loading, doing if len(loaded) < loading else ""),
            Stage(
                "engines started",
                len(started),
                _engines(snapshot) or loading,
                doing if len(loaded) == loading else "",
            ),
        ]
    return [*found, _application(snapshot)]


def serves(snapshot: Snapshot) -> bool:
    """Every application runs, in the newest specification that KubeRay was given, and no second
    cluster is under way."""
    rayservice = snapshot.rayservice or {}
    status = mapping(rayservice.get("status"))
    if not noticed(snapshot) or mapping(status.get("pendingServiceStatus")).get("rayClusterName"):
        return False
    ready = {c.get("type"): c.get("status") for c in sequence(status.get("conditions"))}
    found = applications(snapshot)
    return (
        ready.get("Ready") == "True" and bool(found) and all(a.status == "RUNNING" for a in found)
    )


def noticed(snapshot: Snapshot) -> bool:
    """KubeRay has acted on the newest specification that it was given."""
    rayservice = snapshot.rayservice or {}
    status = mapping(rayservice.get("status"))
    generation = mapping(rayservice.get("metadata")).get("generation") or 1
    return (status.get("observedGeneration") or 0) >= generation


def endpoint(rayservice: Json) -> str:
    """Where the API lies for clients inside the cluster, as "http://NAME.NAMESPACE.svc:8000"; its
    routes are below that, as /v1/models."""
    metadata, spec = rayservice["metadata"], mapping(rayservice.get("spec"))
    service = mapping(spec.get("serveService"))
    name = mapping(service.get("metadata")).get("name") or f"{metadata['name']}-serve-svc"
    ports = sequence(mapping(service.get("spec")).get("ports"))
    port = mapping(ports[0]).get("port") if ports else SERVE_PORT
    prefixes = [
        str(mapping(application).get("route_prefix") or "")
        for application in sequence(_serve_config(rayservice).get("applications"))
    ]
    return f"http://{name}.{metadata['namespace']}.svc:{port}{''.join(prefixes[:1]).rstrip('/')}"


def _pods(snapshot: Snapshot) -> list[Json]:
    """The pods of the cluster that is under way, else of the one that serves, without those that
    end."""
    clusters = snapshot.ray_clusters()
    alive = [pod for pod in snapshot.pods if "deletionTimestamp" not in pod["metadata"]]
    if not clusters:
        return alive
    return [pod for pod in alive if labels(pod).get("ray.io/cluster") == clusters[-1]]


def _expected(snapshot: Snapshot, head: bool) -> int:
    """Pods that the RayService asks for at its start."""
    spec = mapping((snapshot.rayservice or {}).get("spec"))
    config = mapping(spec.get("rayClusterConfig"))
    groups = [Group("", "", mapping(g)) for g in sequence(config.get("workerGroupSpecs"))]
    return sum(group.pods[0] for group in groups) + int(head and bool(config))


def _engines(snapshot: Snapshot) -> int:
    """Engines that the serve config asks for at its start; one may be spread over several pods."""
    rayservice = snapshot.rayservice or {}
    rendered = Rendered("", [], rayservice, _serve_config(rayservice))
    return sum(engine.replicas[0] for engine in Subject(rendered, contract_for("")).engines)


def _serve_config(rayservice: Json) -> Json:
    """The parsed serveConfigV2, {} when there is none that can be read."""
    try:
        return mapping(yaml_text.load(str(mapping(rayservice.get("spec")).get("serveConfigV2"))))
    except yaml.YAMLError:
        return {}


def _counted(name: str, pods: list[Json], through: Callable[[Json], bool], total: int) -> Stage:
    waiting = [pod for pod in pods if not through(pod)]
    missing = total - len(pods)
    words = [f"{component_of(pod) or _name(pod)} {_waits_for(pod)}".strip() for pod in waiting]
    if missing:
        words.append(f"{missing} not made yet")
    return Stage(name, len(pods) - len(waiting), total, ", ".join(dict.fromkeys(words)))


def _is_scheduled(pod: Json) -> bool:
    return bool(mapping(pod.get("spec")).get("nodeName"))


def _has_images(pod: Json) -> bool:
    """Each image of its containers has been there for one of them."""
    spec = mapping(pod.get("spec"))
    wanted = {mapping(c).get("image") for c in sequence(spec.get("containers"))}
    written = {
        mapping(c).get("name"): mapping(c).get("image")
        for key in ("containers", "initContainers")
        for c in sequence(spec.get(key))
    }
    there = {written.get(s.get("name")) for s in _states(pod) if s.get("imageID")}
    return bool(wanted) and wanted <= there


def _has_started(pod: Json) -> bool:
    containers = sequence(mapping(pod.get("status")).get("containerStatuses"))
    return bool(containers) and all("running" in mapping(c.get("state")) for c in containers)


def _waits_for(pod: Json) -> str:
    """A word for what holds the pod up, as the kubelet or the scheduler has it."""
    for state in _states(pod):
        for key in ("waiting", "terminated"):
            reason = mapping(mapping(state.get("state")).get(key)).get("reason")
            if reason and reason not in ("PodInitializing", "Completed"):
                return str(reason)
    conditions = sequence(mapping(pod.get("status")).get("conditions"))
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return str(condition.get("reason") or "unscheduled")
    return "waits for the head" if component_of(pod) != HEAD else ""


def _states(pod: Json) -> list[Json]:
    status = mapping(pod.get("status"))
    keys = ("initContainerStatuses", "containerStatuses")
    return [mapping(state) for key in keys for state in sequence(status.get(key))]


def _doing(logs: dict[str, str]) -> str:
    words = []
    for name, text in logs.items():
        found = _DOING.findall(text)
        if found:
            words.append(f"{name}: {' '.join(found[-1].split())}")
    return ", ".join(words)


def _application(snapshot: Snapshot) -> Stage:
    found = applications(snapshot)
    if not found:
        return Stage("application runs", 0, 1, snapshot.serve_unreachable or "not deployed yet")
    running = sum(application.status == "RUNNING" for application in found)
    detail = "; ".join(
        ", ".join(f"{d.name} {d.status.lower()}" for d in application.deployments)
        or application.status.lower()
        for application in found
        if application.status != "RUNNING"
    )
    return Stage("application runs", running, len(found), detail)


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
