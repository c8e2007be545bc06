"""The pods that engines run in: EFA devices, the rights that go with them, host folders (RPD570 to
RPD579).

The chart's own render keeps to these by its making; a manifest that is written by hand may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raypd.lint.subject import (
    EFA,
    GPU,
    Check,
    Engine,
    Group,
    Subject,
    error,
    mapping,
    quantity,
    sequence,
    warning,
)
from raypd.report import Finding

_NVME = "/mnt/k8s-disks"


def backend_without_devices(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        homes = homes_of(subject, engine)
        if _backends(engine) != ["LIBFABRIC"] or not homes or any(_asked(g) for g in homes):
            continue
        yield error(
            "RPD570",
            f"{homes[0].pod_path}.containers[0].resources.limits",
            f"The {engine.role} engines move KV by LIBFABRIC, and their pods ask for no EFA "
            "interface: libfabric finds no EFA device in them, and falls to TCP or fails.",
            f"`{EFA}: 1` in limits and requests (as many as the type has), or `backends: [UCX]`.",
        )


def devices_without_backend(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        homes = homes_of(subject, engine)
        if _backends(engine) == ["UCX"] and homes and all(_asked(g) for g in homes):
            yield warning(
                "RPD571",
                f"{engine.transfer_path}.kv_connector_extra_config.backends",
                f"The {engine.role} pods ask for EFA interfaces, and KV goes by UCX over TCP all the "
                "same.",
                "`[LIBFABRIC]` on both roles, or no EFA interfaces in the pods.",
            )


def devices_in_limits(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        resources = mapping(group.ray_container.get("resources"))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        for name in (EFA, GPU):
            asked, limit = quantity(requests.get(name)), quantity(limits.get(name))
            if asked and asked != limit:
                yield error(
                    "RPD572",
                    f"{group.pod_path}.containers[0].resources.limits",
                    f"`{name}` is {asked:g} in requests and {f'{limit:g}' if limit else 'absent'} in "
                    "limits; Kubernetes refuses a pod whose devices are not the same in both.",
                    f"`{name}: {asked:g}` in limits.",
                )


def right_to_lock_memory(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        if not _asked(group):
            continue
        own = mapping(group.ray_container.get("securityContext"))
        added = sequence(mapping(own.get("capabilities")).get("add"))
        if own.get("privileged") is not True and not {"IPC_LOCK", "ALL"} & set(map(str, added)):
            yield warning(
                "RPD573",
                f"{group.pod_path}.containers[0].securityContext",
                "EFA registers memory by locking it, and the container may lock only as much as the "
                "node's container runtime allows, which is little on many images.",
                "`capabilities: {add: [IPC_LOCK]}`.",
            )


def devices_on_head(subject: Subject) -> Iterator[Finding]:
    if subject.workers and _asked(subject.head):
        yield warning(
            "RPD574",
            f"{subject.head.pod_path}.containers[0].resources.limits",
            "The head asks for EFA interfaces and moves no KV; it then needs a node that has them.",
            f"No `{EFA}` on the head.",
        )


def roles_share_nodes(subject: Subject) -> Iterator[Finding]:
    """Over EFA two engines of one node meet libfabric's shared memory path, which crashes or hangs."""
    if not subject.pair:
        return
    homes = [homes_of(subject, engine) for engine in subject.pair]
    both = [group for group in homes[0] if any(group is other for other in homes[1])]
    for group in both:
        safe = group.env.get("FI_EFA_ENABLE_SHM_TRANSFER", {}).get("value") == "0"
        anti = mapping(mapping(group.pod.get("affinity")).get("podAntiAffinity"))
        if _asked(group) and not safe and not anti:
            yield warning(
                "RPD575",
                f"{group.pod_path}.affinity",
                f"Prefill and decode may meet on one node of group `{group.name}`, and over EFA two "
                "engines of one node crash or hang.",
                "A group for each role with a podAntiAffinity between them, or "
                '`FI_EFA_ENABLE_SHM_TRANSFER: "0"`.',
            )


def host_folder_made_on_demand(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        for i, volume in enumerate(map(mapping, sequence(group.pod.get("volumes")))):
            host = mapping(volume.get("hostPath"))
            path = str(host.get("path"))
            if host.get("type") == "DirectoryOrCreate" and path.startswith(_NVME):
                yield warning(
                    "RPD576",
                    f"{group.pod_path}.volumes[{i}].hostPath.type",
                    f"Where the NVMe is not mounted, {path} is made on the root disk, which image and "
                    "weights then fill.",
                    "`Directory`, so that the pod waits and says so.",
                )


CHECKS: list[Check] = [
    backend_without_devices,
    devices_without_backend,
    devices_in_limits,
    right_to_lock_memory,
    devices_on_head,
    roles_share_nodes,
    host_folder_made_on_demand,
]


def _asked(group: Group) -> float:
    resources = mapping(group.ray_container.get("resources"))
    return max(quantity(mapping(resources.get(kind)).get(EFA)) for kind in ("limits", "requests"))


def _backends(engine: Engine) -> Any:
    return engine.extra.get("backends")


def homes_of(subject: Subject, engine: Engine) -> list[Group]:
    """Worker groups whose pods the engine may land on: those that announce what it asks for."""
    wanted = {
        name
        for bundle in engine.bundles
        for name, amount in bundle.items()
        if amount
        and name not in ("CPU", "GPU", "memory", "object_store_memory", "TPU")
        and not name.startswith("accelerator_type:")
    }
    on_gpu = any(bundle.get("GPU") for bundle in engine.bundles)
    return [
        group
        for group in subject.workers
        if wanted <= set(group.custom_resources) and (group.gpus or not on_gpu)
    ]
