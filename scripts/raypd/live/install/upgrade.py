"""What an upgrade does to the pods and engines that run, and the part of it that KubeRay leaves out.

KubeRay 1.6 (rayservice_controller.go, shouldUpdateCluster and shouldPrepareNewCluster) compares a
RayService with its RayCluster without the fields of MUTED. If the rest is equal it changes nothing,
the numbers of replicas included; if only worker groups were added at the end it updates the cluster;
else it makes a new cluster, or with the strategy None nothing. The serve config always goes to the
cluster that runs, and Ray Serve builds an application anew, and so replaces all of its engines, when
one of CODE differs (Ray 2.58, serve/_private/deploy_utils.py, get_app_code_version).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from raypd import yaml_text
from raypd.lint.subject import mapping, sequence
from raypd.live.install.crd import differences

Json = dict[str, Any]

SIZES = ("replicas", "minReplicas", "maxReplicas")
MUTED = re.compile(
    r"workerGroupSpecs\[\d+\]\.(replicas|minReplicas|maxReplicas|scaleStrategy\.workersToDelete)\b"
    r"|.*\.template\.spec\.(tolerations|schedulingGates)\b"
    r"|upgradeStrategy\b"
)
CODE = ("import_path", "runtime_env", "args", "autoscaling_policy")


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

    `pods` are the paths in spec.rayClusterConfig that make the pods other ones; `replaces` tells
    that KubeRay makes a second cluster of them, and when it does not they have no effect yet.
    `rebuilt` are applications whose engines Ray Serve replaces in place, `adjusted` those that get
    new settings without a restart. `tolerations` tells that these differ, which no running pod
    takes over. `known` is False when the cluster's schema could not be read, so that nothing can be
    said about pods.
    """

    pods: list[str] = field(default_factory=list)
    replaces: bool = False
    added_groups: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    adjusted: list[str] = field(default_factory=list)
    resized: list[Resize] = field(default_factory=list)
    tolerations: bool = False
    known: bool = True

    @property
    def new_cluster(self) -> bool:
        """KubeRay starts a second Ray cluster and moves the traffic to it."""
        return bool(self.pods) and self.replaces

    @property
    def kept_back(self) -> list[str]:
        """Changes of the pods that wait for the cluster to be replaced by hand."""
        return [] if self.replaces else self.pods


def change(schema: Json | None, wanted: Json, live: Json, cluster: Json) -> Change:
    """Compares the RayService that was rendered with the one in the cluster and with its RayCluster.

    `schema` is that of the RayService CRD, None when it could not be read.
    """
    spec = mapping(wanted.get("spec"))
    config, running = mapping(spec.get("rayClusterConfig")), mapping(cluster.get("spec"))
    rebuilt, adjusted = _applications(spec, mapping(live.get("spec")))
    serving = {"rebuilt": rebuilt, "adjusted": adjusted, "resized": _resized(config, running)}
    if schema is None:
        return Change(known=False, **serving)
    groups = sequence(config.get("workerGroupSpecs"))
    old = len(sequence(running.get("workerGroupSpecs")))
    added = [str(group.get("groupName")) for group in groups[old:]]
    compared = {**config, "workerGroupSpecs": groups[:old]} if old else config
    found = differences(_cluster_schema(schema), compared, running)
    pods = [path for path in found if not MUTED.match(path)]
    return Change(
        pods=pods,
        replaces=mapping(spec.get("upgradeStrategy")).get("type") != "None",
        added_groups=[] if pods else added,
        tolerations=any(".tolerations" in path for path in found),
        **serving,
    )


def describe(change: Change, rayservice: Json) -> list[str]:
    """What a person has to know before an upgrade, one line for pods, engines and numbers each."""
    name, namespace = rayservice["metadata"]["name"], rayservice["metadata"]["namespace"]
    lines = [_pods(change, name, namespace)]
    if change.added_groups:
        lines.append(f"Groups: {', '.join(change.added_groups)} added to the running cluster.")
    if change.new_cluster:
        lines.append("Engines: the new cluster's load first, then the traffic moves over to them.")
    elif change.rebuilt:
        lines.append(
            f"Engines: Ray Serve replaces all those of {', '.join(change.rebuilt)} in place, because "
            "its arguments differ. Requests meet fewer engines, or none where there is only one."
        )
    elif change.adjusted:
        lines.append(f"Engines: stay; {', '.join(change.adjusted)} gets its new settings in place.")
    else:
        lines.append("Engines: stay; the serve config is the same.")
    if not change.new_cluster:
        for resize in change.resized:
            lines.append(
                f"Group {resize.group}: {resize.key} {resize.before} -> {resize.after}, in place. "
                "KubeRay does not hand this on to a running cluster, so raypd does."
            )
        if change.tolerations:
            lines.append("Tolerations differ: KubeRay gives them to the next cluster's pods only.")
    return lines


def _pods(change: Change, name: str, namespace: str) -> str:
    if not change.known:
        return "Pods: cannot tell, because the RayService CRD may not be read."
    if not change.pods:
        return "Pods: stay; nothing in their templates changes."
    paths = ", ".join(change.pods[:4]) + (" ..." if len(change.pods) > 4 else "")
    if change.replaces:
        return f"Pods: a second Ray cluster is started beside the first one, because of {paths}."
    return (
        f"Pods: stay as they are, because upgrade.strategy is None. Not in effect until the cluster "
        f"is replaced: {paths}. To replace it, which stops serving meanwhile: kubectl -n {namespace} "
        f"delete raycluster -l ray.io/originated-from-cr-name={name}"
    )


def shrinking(change: Change) -> dict[str, int]:
    """Worker groups that lose pods, with the number of pods that they keep."""
    return {
        r.group: r.after
        for r in change.resized
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
    waiting = shrinking(Change(resized=resized)).keys() - spare.keys()
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
    old = {str(g.get("groupName")): g for g in sequence(running.get("workerGroupSpecs"))}
    return [
        Resize(name, key, old[name].get(key), group[key])
        for group in sequence(config.get("workerGroupSpecs"))
        if (name := str(group.get("groupName"))) in old
        for key in keys
        if key in group and group[key] != old[name].get(key)
    ]


def _applications(wanted: Json, live: Json) -> tuple[list[str], list[str]]:
    """Names of the applications that are built anew, and of those that only get other settings."""
    before = _by_name(live)
    rebuilt, adjusted = [], []
    for name, application in _by_name(wanted).items():
        old = before.get(name)
        if old is None or any(application.get(key) != old.get(key) for key in CODE):
            rebuilt.append(name)
        elif application != old:
            adjusted.append(name)
    return rebuilt, adjusted


def _by_name(spec: Json) -> dict[str, Json]:
    try:
        config = yaml_text.load(str(spec.get("serveConfigV2") or ""))
    except yaml.YAMLError:
        return {}
    applications = map(mapping, sequence(mapping(config).get("applications")))
    return {str(application.get("name")): application for application in applications}


def _cluster_schema(schema: Json) -> Json:
    return schema["properties"]["spec"]["properties"]["rayClusterConfig"]
