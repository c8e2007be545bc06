"""Volumes that cannot be had or mounted (RPD615, RPD634, RPD635).

Words of Kubernetes 1.35: pkg/controller/volume/persistentvolume, pkg/volume/hostpath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.live.diagnosis.trouble import Check, Trouble, of_pod
from raypd.live.snapshot import Json, Snapshot, containers, unschedulable

_NO_DIRECTORY = re.compile(r"hostPath type check failed: (\S+) is not a directory")
_MISSING = re.compile(r'(?:secret|configmap) "[^"]+" not found')


def unbound(snapshot: Snapshot) -> Iterator[Trouble]:
    claims = {claim["metadata"]["name"]: claim for claim in snapshot.claims}
    for pod in snapshot.alive():
        if "nodeName" in pod["spec"]:
            continue
        for volume in pod["spec"].get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name is None or "volume claims" in snapshot.unseen:
                continue
            claim = claims.get(name)
            if claim is None:
                yield of_pod(
                    "RPD615",
                    pod,
                    f"It needs the volume claim {name}, which is not in namespace "
                    f"{snapshot.namespace}.",
                    "cache.persistentVolumeClaim.existingClaim with the name of a claim that is "
                    "there, or empty for one that the chart makes.",
                )
            elif claim["status"].get("phase") == "Lost":
                yield of_pod(
                    "RPD615",
                    pod,
                    f"The volume of its claim {name} no longer exists.",
                    f"A new claim: `kubectl -n {snapshot.namespace} delete pvc {name}`, then "
                    "`raypd up`. The cache is filled anew.",
                )
            elif claim["status"].get("phase") == "Pending":
                yield from _pending(pod, claim, snapshot)


def _pending(pod: Json, claim: Json, snapshot: Snapshot) -> Iterator[Trouble]:
    name, wanted = claim["metadata"]["name"], claim["spec"].get("storageClassName")
    failed = snapshot.events_of(claim, "ProvisioningFailed", "FailedBinding")
    waits = snapshot.events_of(claim, "ExternalProvisioning")
    if failed and "no storage class is set" in failed[0]["message"]:
        yield of_pod(
            "RPD615",
            pod,
            f"Its volume claim {name} names no storage class and the cluster has no default one, so "
            "nobody makes a volume for it.",
            "cache.persistentVolumeClaim.storageClassName with one of `kubectl get storageclass`; "
            "pods on several nodes need one with ReadWriteMany, as EFS or FSx.",
        )
    elif failed:
        words = failed[0]["message"]
        there = "not found" in words and "storageclass" in words
        yield of_pod(
            "RPD615",
            pod,
            f"Nobody makes a volume for its claim {name}: {words}",
            f"A storage class that is there instead of {wanted} (`kubectl get storageclass`) in "
            "cache.persistentVolumeClaim.storageClassName."
            if there
            else "What the provisioner's words name.",
        )
    elif waits:
        yield of_pod(
            "RPD615",
            pod,
            f"Its volume claim {name} waits for a driver that does not answer: "
            f"{waits[0]['message']}",
            "The CSI driver of that storage class: is it installed, do its pods run, and may they "
            "run on tainted nodes? For EFS: the EKS add-on aws-efs-csi-driver.",
        )
    elif (words := unschedulable(pod)) and "persistentvolumeclaim" in words.lower():
        yield of_pod(
            "RPD615",
            pod,
            f"Its volume claim {name} has no volume, and its events are gone. The scheduler: {words}",
            f"`kubectl -n {snapshot.namespace} describe pvc {name}`: its storage class and the driver "
            "of that class.",
        )


def not_mounted(snapshot: Snapshot) -> Iterator[Trouble]:
    """Only while no container has started: the events of mounts that worked in the end stay."""
    for pod in snapshot.alive():
        states = [container.get("state") or {} for container in containers(pod)]
        if "nodeName" not in pod["spec"] or any("waiting" not in state for state in states):
            continue
        events = snapshot.events_of(pod, "FailedMount", "FailedAttachVolume", "FailedMapVolume")
        events = [event for event in events if not _MISSING.search(event["message"])]
        if not events:
            continue
        words, node = events[0]["message"], pod["spec"]["nodeName"]
        if missing := _NO_DIRECTORY.search(words):
            yield of_pod(
                "RPD634",
                pod,
                f"Its node {node} has no directory {missing[1]}: nobody has mounted the node's NVMe "
                "disks there.",
                "Nodes that mount them: in eksctl the node group's overrideBootstrapCommand with a "
                "NodeConfig of instance.localStorage.strategy RAID0, as in eksctl/; it acts on new "
                "nodes only. Or cache.hostPath.path with a directory of the node, or another "
                "cache.type.",
            )
        else:
            yield of_pod(
                "RPD635",
                pod,
                f"A volume cannot be mounted on its node {node}: {words}",
                "What the words name; for a claim, the CSI driver's pod on that node.",
            )


CHECKS: list[Check] = [unbound, not_mounted]
