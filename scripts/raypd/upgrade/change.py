"""What a change of a release does to the pods and engines that run, and the part of it that KubeRay
leaves out.

KubeRay 1.6 (rayservice_controller.go, shouldUpdateCluster and shouldPrepareNewCluster) compares a
RayService with its RayCluster without the fields of MUTED. If the rest is equal it changes nothing,
the numbers of replicas included; if only worker groups were added at the end it updates the cluster;
else it makes a new cluster, or with the strategy None nothing. The serve config always goes to the
cluster that runs, unless a new one is made. Its Service it writes once for each cluster (reconcileServices),
and of one that is there only the spec.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from raypd import yaml_text
from raypd.lint.subject import mapping, sequence
from raypd.upgrade import serve
from raypd.upgrade.difference import WITHOUT_SCHEMA, Difference, differences, equal

Json = dict[str, Any]

SIZES = ("replicas", "minReplicas", "maxReplicas")
MUTED = re.compile(
    r"workerGroupSpecs\[\d+\]\.(replicas|minReplicas|maxReplicas|scaleStrategy\.workersToDelete)\b"
    r"|.*\.template\.spec\.(tolerations|schedulingGates)\b"
    r"|upgradeStrategy\b"
)
# Strategies under which KubeRay makes a second cluster; none is its own default, NewCluster. The last
# takes a feature gate of the operator (RayServiceIncrementalUpgrade), which is off by default.
INCREMENTAL = "NewClusterWithIncrementalUpgrade"
_REPLACE = (None, "", "NewCluster", INCREMENTAL)


@dataclass(frozen=True)
class Resize:
    """A worker group's number that changes, as `key` "replicas" from 1 to 2."""

    group: str
    key: str
    before: int | None
    after: int


@dataclass(frozen=True)
class Change:
    """What an upgrade means for what runs.

    `pods` are the places in spec.rayClusterConfig that make the pods other ones; `replaces` tells
    that KubeRay makes a second cluster of them, and when it does not they have no effect yet.
    `applications` are those of the serve config that differ, `of_start` what of it only a new start of
    Serve takes up. `tolerations` differ, which no running pod takes over, and `service` is what differs
    of the Service, which stays as it is. `renamed` is the name of the RayService that goes because this
    one takes its place. `known` is False when the cluster's schema could not be read, so that nothing
    can be said about pods.
    """

    pods: list[Difference] = field(default_factory=list)
    replaces: bool = False
    added_groups: list[str] = field(default_factory=list)
    applications: list[serve.Application] = field(default_factory=list)
    of_start: list[Difference] = field(default_factory=list)
    resized: list[Resize] = field(default_factory=list)
    tolerations: list[Difference] = field(default_factory=list)
    service: list[Difference] = field(default_factory=list)
    renamed: str | None = None
    known: bool = True

    @property
    def new_cluster(self) -> bool:
        """KubeRay starts a second Ray cluster and moves the traffic to it."""
        return self.renamed is None and bool(self.pods) and self.replaces

    @property
    def makes_pods(self) -> bool:
        """Pods are made of it, at once or when the cluster is replaced."""
        return bool(self.pods or self.renamed or self.added_groups or self.resized)

    @property
    def kept_back(self) -> list[Difference]:
        """Changes of the pods that wait for the cluster to be replaced by hand."""
        return [] if self.replaces or self.renamed else self.pods

    @property
    def service_kept(self) -> list[Difference]:
        """Changes of the Service that have no effect: of a new cluster it takes over the spec."""
        if self.renamed:
            return []
        kept = "serveService.spec"
        return [o for o in self.service if not self.new_cluster or not o.path.startswith(kept)]

    @property
    def rebuilt(self) -> list[str]:
        """Applications whose engines Ray Serve replaces in place."""
        return self._named("rebuilt")

    @property
    def adjusted(self) -> list[str]:
        """Applications that get new settings without a restart."""
        return self._named("adjusted")

    def _named(self, fate: serve.Fate) -> list[str]:
        return [application.name for application in self.applications if application.fate == fate]


def change(schema: Json | None, wanted: Json, live: Json, cluster: Json | None = None) -> Change:
    """Compares the RayService that was rendered with the one that is there and with its RayCluster.

    `schema` is that of the RayService CRD, None when it could not be read. Without a `cluster` two
    renders are compared: what runs is then what the older one says.
    """
    spec, before = mapping(wanted.get("spec")), mapping(live.get("spec"))
    config = mapping(spec.get("rayClusterConfig"))
    if cluster is None:
        running, schema = mapping(before.get("rayClusterConfig")), WITHOUT_SCHEMA
    else:
        running = mapping(cluster.get("spec"))
    applications, of_start = serve.compare(serve_config(live), serve_config(wanted))
    name, old_name = _name(wanted), _name(live)
    known: Json = {
        "applications": applications,
        "of_start": of_start,
        "resized": _resized(config, running),
        "renamed": old_name if name != old_name else None,
    }
    if schema is None:
        return Change(known=False, **known)
    groups = sequence(config.get("workerGroupSpecs"))
    old = len(sequence(running.get("workerGroupSpecs")))
    added = [str(mapping(group).get("groupName")) for group in groups[old:]]
    compared = {**config, "workerGroupSpecs": groups[:old]} if old else config
    found = differences(_below(schema, "spec", "rayClusterConfig"), running, compared)
    pods = [one for one in found if not MUTED.match(one.path)]
    service = differences(
        _below(schema, "spec", "serveService"), before.get("serveService"), spec.get("serveService")
    )
    return Change(
        pods=pods,
        replaces=strategy(wanted) in _REPLACE,
        added_groups=[] if pods else added,
        tolerations=[one for one in found if ".tolerations" in one.path],
        service=[
            Difference(f"serveService.{o.path}".rstrip("."), o.before, o.after) for o in service
        ],
        **known,
    )


def _below(schema: Json, *path: str) -> Json:
    """The part of a schema for a field."""
    for key in path:
        known = mapping(schema.get("properties"))
        schema = mapping(known.get(key, schema.get("additionalProperties")))
    return schema


def describe(change: Change, rayservice: Json) -> list[str]:
    """What a person has to know before an upgrade, one line for pods, engines, numbers and so on."""
    lines = [_pods(change, rayservice)]
    if change.added_groups:
        lines.append(f"Groups: {', '.join(change.added_groups)} added to the running cluster.")
    lines += _engines(change)
    if not change.new_cluster and not change.renamed:
        for resize in change.resized:
            lines.append(
                f"Group {resize.group}: {resize.key} {resize.before} -> {resize.after}, in place. "
                "KubeRay does not hand this on to a running cluster, so raypd does."
            )
        if change.tolerations:
            lines.append("Tolerations differ: KubeRay gives them to the next cluster's pods only.")
    if change.service_kept:
        lines.append(
            f"Service: stays as it is, because KubeRay writes it only once: {_few(change.service_kept)}. "
            f"To have it made anew, and no requests come in meanwhile: "
            f"{remake_service(rayservice)}"
        )
    return lines


def replace_cluster(rayservice: Json) -> str:
    """The command that ends the running cluster, so that KubeRay makes it anew."""
    return (
        f"kubectl -n {_namespace(rayservice)} delete raycluster "
        f"-l ray.io/originated-from-cr-name={_name(rayservice)}"
    )


def remake_service(rayservice: Json) -> str:
    """The command that ends the Service of a RayService, so that KubeRay makes it anew."""
    written = mapping(mapping(rayservice.get("spec")).get("serveService"))
    # KubeRay's own name for it (controllers/ray/utils/util.go, GenerateServeServiceName).
    name = mapping(written.get("metadata")).get("name") or f"{_name(rayservice)}-serve-svc"
    return f"kubectl -n {_namespace(rayservice)} delete service {name}"


def strategy(rayservice: Json) -> Any:
    """The upgrade strategy as it is written, None for none."""
    return mapping(mapping(rayservice.get("spec")).get("upgradeStrategy")).get("type")


def _pods(change: Change, rayservice: Json) -> str:
    if change.renamed:
        return (
            f"Pods: all end. The RayService is {_name(rayservice)} now, and Helm deletes "
            f"{change.renamed} with its cluster after it has made the new one."
        )
    if not change.known:
        return "Pods: cannot tell, because the RayService CRD may not be read."
    if not change.pods:
        return "Pods: stay; nothing in their templates changes."
    paths = _few(change.pods)
    if change.replaces:
        return f"Pods: a second Ray cluster is started beside the first one, because of {paths}."
    return (
        f"Pods: stay as they are, because upgrade.strategy is None. Not in effect until the cluster "
        f"is replaced: {paths}. To replace it, which stops serving meanwhile: "
        f"{replace_cluster(rayservice)}"
    )


def _engines(change: Change) -> list[str]:
    if change.renamed:
        return ["Engines: those of the new cluster load when the old ones have left their GPUs."]
    if change.new_cluster:
        return ["Engines: the new cluster's load first, then the traffic moves over to them."]
    lines = []
    if change.rebuilt:
        lines.append(
            f"Engines: Ray Serve replaces all those of {', '.join(change.rebuilt)} in place, because "
            "its arguments differ. Requests meet fewer engines, or none where there is only one."
        )
    for application in change.applications:
        match application.fate:
            case "restarted":
                lines.append(
                    f"Engines: Ray Serve replaces those of {', '.join(application.deployments)} in "
                    "place. Requests meet fewer engines, or none where there is only one."
                )
            case "gone":
                lines.append(f"Engines: those of {application.name} end; it is not in the config.")
            case "new":
                lines.append(f"Engines: those of {application.name} are started beside the others.")
    if not lines and change.adjusted:
        lines.append(f"Engines: stay; {', '.join(change.adjusted)} gets its new settings in place.")
    ignored = [one.path for application in change.applications for one in application.ignored]
    if ignored:
        lines.append(
            f"Engines: Ray Serve goes on with what is taken out until it builds the application anew: "
            f"{', '.join(ignored)}."
        )
    if change.of_start:
        lines.append(
            f"Serve: reads {_few(change.of_start)} at its start only, so not before the cluster is "
            "replaced."
        )
    return lines or ["Engines: stay; the serve config is the same."]


def _few(found: list[Difference]) -> str:
    paths = list(dict.fromkeys(one.path for one in found))
    return ", ".join(paths[:4]) + (" ..." if len(paths) > 4 else "")


def shrinking(resized: list[Resize]) -> dict[str, int]:
    """Worker groups that lose pods, with the number of pods that they keep."""
    return {
        r.group: r.after
        for r in resized
        if r.key == "replicas" and r.before is not None and r.after < r.before
    }


def resize(config: Json, cluster: Json, spare: dict[str, list[str]] | None = None) -> Json | None:
    """The manifest to apply, server-side, so that a RayCluster has the numbers of replicas of a
    RayService's rayClusterConfig; None when it has them.

    A group that loses pods keeps its numbers until `spare` has it, with the names of pods that hold
    no engine: KubeRay deletes the pods that it is given the names of, and otherwise any.
    The list of groups is atomic, so it is given whole, as it is in the cluster but for the numbers.
    """
    spare = spare or {}
    running = mapping(cluster.get("spec"))
    resized = _resized(config, running)
    waiting = shrinking(resized).keys() - spare.keys()
    changes = {(r.group, r.key): r.after for r in resized if r.group not in waiting}
    if not changes:
        return None
    groups = []
    for group in sequence(running.get("workerGroupSpecs")):
        numbers = {key: n for (name, key), n in changes.items() if name == group["groupName"]}
        if numbers and spare.get(group["groupName"]):
            numbers["scaleStrategy"] = {"workersToDelete": spare[group["groupName"]]}
        groups.append({**group, **numbers})
    metadata = cluster["metadata"]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        # With the version that was read, because the autoscaler writes to the list as well.
        "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
        "spec": {"workerGroupSpecs": groups},
    }


def _resized(config: Json, running: Json) -> list[Resize]:
    """Ray's autoscaler owns `replicas` where it runs, and keeps to the bounds."""
    keys = SIZES[1:] if config.get("enableInTreeAutoscaling") else SIZES
    groups = map(mapping, sequence(running.get("workerGroupSpecs")))
    old = {str(group.get("groupName")): group for group in groups}
    return [
        Resize(name, key, old[name].get(key), group[key])
        for group in map(mapping, sequence(config.get("workerGroupSpecs")))
        if (name := str(group.get("groupName"))) in old
        for key in keys
        if key in group and not equal(group[key], old[name].get(key))
    ]


def serve_config(rayservice: Json) -> Json:
    """The serve config of a RayService, parsed; {} where there is none."""
    try:
        config = yaml_text.load(str(mapping(rayservice.get("spec")).get("serveConfigV2") or ""))
    except yaml.YAMLError:
        return {}
    return mapping(config)


def _name(rayservice: Json) -> str:
    return str(mapping(rayservice.get("metadata")).get("name"))


def _namespace(rayservice: Json) -> str:
    return str(mapping(rayservice.get("metadata")).get("namespace") or "default")
