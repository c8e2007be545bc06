"""What of an upgrade would hang, be refused, lose requests or be ignored without a word (RPD72x, RPD73x).

A check is a function that takes a Subject and yields findings. Adding one is writing it and naming it in
CHECKS; its code gets an entry in data/rules.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from raypd.lint.subject import Subject, error, warning
from raypd.live.install.placing import Shortage, shortage_text
from raypd.report import Finding
from raypd.upgrade.change import Change, remake_service, replace_cluster
from raypd.upgrade.objects import ObjectChange
from raypd.upgrade.roles import models, routes

Json = dict[str, Any]


@dataclass(frozen=True)
class Upgrade:
    """What is judged: both sides, the change of what runs, the objects, which deployments of each
    application nobody stands in for, and the groups that find no nodes (`nodes_come`: a cluster's
    autoscaler may bring some). `read_at_start` are Secrets and ConfigMaps that containers have as
    variables."""

    old: Subject
    new: Subject
    change: Change
    objects: list[ObjectChange]
    alone: dict[str, list[str]]
    shortages: list[Shortage] = field(default_factory=list)
    nodes_come: bool = False
    read_at_start: frozenset[tuple[str, str]] = frozenset()

    @property
    def rayservice(self) -> Json:
        """The RayService that is to come."""
        return self.new.rayservice

    @property
    def interrupted(self) -> dict[str, list[str]]:
        """By application the deployments that answer nothing while they are replaced in place."""
        if self.change.new_cluster or self.change.renamed:
            return {}
        found = {}
        for application in self.change.applications:
            lonely = self.alone.get(application.name, [])
            if application.fate == "restarted":
                lonely = [name for name in lonely if name in application.deployments]
            if application.fate in ("rebuilt", "restarted") and lonely:
                found[application.name] = lonely
        return found


Check = Callable[[Upgrade], Iterator[Finding]]


def check(upgrade: Upgrade) -> list[Finding]:
    """Runs every check."""
    return [finding for function in CHECKS for finding in function(upgrade)]


def room(upgrade: Upgrade) -> Iterator[Finding]:
    for short in upgrade.shortages:
        path, text = short.wanted.path, shortage_text(short)
        if upgrade.nodes_come:
            yield warning(
                "RPD722",
                path,
                f"{text} The pods wait until the cluster's autoscaler brings nodes.",
                "Nothing, if its node pools can make such nodes; else a pool that can.",
            )
        elif upgrade.change.new_cluster:
            yield error(
                "RPD720",
                path,
                f"{text} The second cluster's pods would wait for ever, and the upgrade would never end.",
                "`upgrade.strategy: None`, or nodes for a whole second cluster first.",
            )
        else:
            yield error(
                "RPD721",
                path,
                f"{text} The pods would wait for ever.",
                "Nodes that fit first, or values that fit the nodes.",
            )


def interruption(upgrade: Upgrade) -> Iterator[Finding]:
    for application, lonely in upgrade.interrupted.items():
        yield warning(
            "RPD723",
            f"application {application}",
            f"{', '.join(lonely)}: one replica{' each' if len(lonely) > 1 else ''}, which Ray Serve ends "
            "before the new one starts. No request is answered until that has loaded.",
            "A quiet hour; or two replicas of each role and of the ingress first, so that one answers "
            "while the other is replaced.",
        )


def replacement(upgrade: Upgrade) -> Iterator[Finding]:
    if upgrade.change.renamed:
        yield warning(
            "RPD724",
            f"RayService/{upgrade.change.renamed}",
            f"Another name makes it another RayService: {upgrade.change.renamed} is deleted with all its "
            "pods, and no request is answered until the new cluster has loaded on the same nodes.",
            "The name as it is (`fullnameOverride`, `nameOverride`, the name of the release).",
        )
        return
    for application in upgrade.change.applications:
        if application.fate == "gone":
            yield warning(
                "RPD724",
                f"application {application.name}",
                "Ray Serve deletes an application that the serve config does not have any more.",
                "Nothing, if nobody asks it.",
            )


def kept_back(upgrade: Upgrade) -> Iterator[Finding]:
    if upgrade.change.kept_back:
        paths = [place.path for place in upgrade.change.kept_back]
        yield warning(
            "RPD725",
            f"spec.rayClusterConfig.{paths[0]}",
            f"{len(paths)} change{'s' if len(paths) > 1 else ''} of pods have no effect, because "
            "upgrade.strategy is None: the pods stay as they are, and nothing else says so.",
            f"Replace the cluster after the upgrade, which answers nothing until the new one has "
            f"loaded: {replace_cluster(upgrade.rayservice)}",
        )


def handed_on(upgrade: Upgrade) -> Iterator[Finding]:
    change = upgrade.change
    if change.new_cluster or change.renamed:
        return
    for group in dict.fromkeys(resize.group for resize in change.resized):
        yield warning(
            "RPD726",
            f"group {group}",
            "KubeRay does not hand its number of pods on to a cluster that is there: after a plain "
            "`helm upgrade` or a sync of Argo CD a new engine waits for a pod that nobody makes.",
            "`raypd up`, which writes it into the RayCluster; or by hand as docs/upgrades.md says.",
        )


def tolerations(upgrade: Upgrade) -> Iterator[Finding]:
    change = upgrade.change
    if change.tolerations and not change.new_cluster and not change.renamed:
        yield warning(
            "RPD727",
            f"spec.rayClusterConfig.{change.tolerations[0].path}",
            "KubeRay gives tolerations to the next cluster's pods only: not to those that run, nor to "
            "those that it makes anew in this cluster.",
            f"Replace the cluster where it matters: {replace_cluster(upgrade.rayservice)}",
        )


def ignored(upgrade: Upgrade) -> Iterator[Finding]:
    change = upgrade.change
    if change.service_kept:
        yield warning(
            "RPD728",
            f"spec.{change.service_kept[0].path}",
            "KubeRay writes the Service once and then leaves it, so the change has no effect.",
            f"Let KubeRay make it anew; no request comes in meanwhile, and a load balancer gets another "
            f"address: {remake_service(upgrade.rayservice)}",
        )
    if change.new_cluster or change.renamed:
        return
    if change.of_start:
        yield warning(
            "RPD728",
            f"spec.serveConfigV2.{change.of_start[0].path}",
            "Ray Serve reads it at its start only, so the change has no effect.",
            f"Replace the cluster where it matters: {replace_cluster(upgrade.rayservice)}",
        )
    for application in change.applications:
        if application.ignored:
            yield warning(
                "RPD728",
                f"spec.serveConfigV2 {application.name}: {application.ignored[0].path}",
                "Ray Serve goes on with a setting that is taken out of `deployments`, until something "
                "in `args` differs.",
                "The value that it is to have, written out.",
            )


def clients(upgrade: Upgrade) -> Iterator[Finding]:
    lost = models(upgrade.old) - models(upgrade.new)
    for model in sorted(lost):
        yield warning(
            "RPD729",
            f"model {model}",
            "Clients that ask for the model by this name get HTTP 404 from then on.",
            "The name as it is (`model.id`), or clients that know the new one.",
        )
    new = routes(upgrade.new)
    for application, path in routes(upgrade.old).items():
        if application in new and new[application] != path:
            yield warning(
                "RPD729",
                f"path {path}",
                f"The application answers at {new[application]} from then on, and at the old path not.",
                "The path as it is (`endpoint.routePrefix`), or clients that know the new one.",
            )


def refused(upgrade: Upgrade) -> Iterator[Finding]:
    for one in upgrade.objects:
        if one.refused:
            paths = list(dict.fromkeys(place.path for place in one.refused))
            yield error(
                "RPD730",
                f"{one.title}: {paths[0]}",
                f"The API server lets nobody change {', '.join(paths[:4])}"
                f"{' ...' if len(paths) > 4 else ''} of a {one.kind} that is there, and Helm stops "
                "there, with the objects before it changed.",
                _way_out(one),
            )


def _way_out(one: ObjectChange) -> str:
    if one.kind == "Job":
        return (
            f"Delete it before the upgrade, and Helm makes it anew: kubectl delete job {one.name}"
        )
    if one.kind == "PersistentVolumeClaim":
        return "The claim as it is; or another claim (`cache.persistentVolumeClaim.existingClaim`)."
    return "The field as it is, or an object of another name."


def data_lost(upgrade: Upgrade) -> Iterator[Finding]:
    for one in upgrade.objects:
        if one.kind == "PersistentVolumeClaim" and one.fate == "deleted":
            yield warning(
                "RPD731",
                one.title,
                "Helm deletes the claim, and with it what is stored there as soon as no pod mounts it.",
                "`cache.persistentVolumeClaim.keep: true` in an upgrade before this one.",
            )


def read_at_start(upgrade: Upgrade) -> Iterator[Finding]:
    change = upgrade.change
    if change.new_cluster or change.renamed:
        return
    for one in upgrade.objects:
        content = [p for p in one.places if p.path.startswith(("data", "stringData", "binaryData"))]
        if content and (one.kind, one.name) in upgrade.read_at_start:
            yield warning(
                "RPD732",
                one.title,
                "The pods have it as variables, which are read when a container starts: those that run "
                "go on with the old content.",
                f"Replace the cluster where it matters: {replace_cluster(upgrade.rayservice)}",
            )


CHECKS: list[Check] = [
    room,
    interruption,
    replacement,
    kept_back,
    handed_on,
    tolerations,
    ignored,
    clients,
    refused,
    data_lost,
    read_at_start,
]
