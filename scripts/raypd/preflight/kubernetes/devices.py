"""GPUs and EFA interfaces of the nodes, and the DaemonSets that make the nodes offer them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.data import load
from raypd.lint.subject import GPU, error, mapping, warning
from raypd.live.diagnosis.fit import amount, not_wanted, obstacles, offers
from raypd.live.diagnosis.scheduling import no_device, plugins_of
from raypd.live.install.placing import Wanted
from raypd.live.install.preconditions import wanted_pods
from raypd.live.snapshot import Json, Snapshot, labels
from raypd.preflight.aws.ami import cuda_of
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Site

DAEMONSETS = "/apis/apps/v1/daemonsets"
# Written by NVIDIA's GPU feature discovery.
_DRIVER = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major")


def devices_offered(site: Site) -> Iterator[Outcome]:
    """Each node that a group selects offers the devices that one of its pods takes; where it does not,
    the reason by node, device and DaemonSet."""
    snapshot = Snapshot("", "", "", daemonsets=site.kube.list(DAEMONSETS))
    known = load("live.yaml")["devicePlugins"]
    seen: dict[str, None] = {}
    told: set[tuple[str, str]] = set()
    for group in groups_of(site):
        devices = {name: count for name, count in group.request.items() if name in known}
        nodes = selected(site, group)
        if devices and not nodes:
            yield NotChecked(f"no node has the labels that group {group.group} selects (RPD697)")
        for node in nodes:
            name = node["metadata"]["name"]
            for device, count in devices.items():
                has = offers(node, device)
                if has >= count or (name, device) in told:
                    seen[f"{name} {amount(device, has)} {device}"] = None
                    continue
                told.add((name, device))
                yield error(
                    "RPD851",
                    f"node {name}",
                    f"It offers {amount(device, has) if has else 'no'} {device}, and a pod of group "
                    f"{group.group} takes {amount(device, count)}: "
                    f"{no_device(device, node, snapshot)}.",
                    "Where the plugin does not run: a toleration in its DaemonSet, or no such taint on "
                    f"the nodes. Plugin: {known[device]['remedy']}",
                )
    if seen:
        yield Seen("; ".join(seen))


def plugins_on_head(site: Site) -> Iterator[Outcome]:
    """Device plugins do not end again and again on nodes that have no devices, the head's for one."""
    daemonsets = site.kube.list(DAEMONSETS)
    head = next(group for group in groups_of(site) if group.group == "head")
    for node in selected(site, head):
        name = node["metadata"]["name"]
        for device in load("live.yaml")["devicePlugins"]:
            if offers(node, device):
                continue
            for plugin in plugins_of(device, daemonsets):
                status = mapping(plugin.get("status"))
                ready = int(status.get("numberReady") or 0)
                wants = int(status.get("desiredNumberScheduled") or 0)
                if ready < wants and not not_wanted(plugin, node):
                    full = f"{plugin['metadata']['namespace']}/{plugin['metadata']['name']}"
                    yield warning(
                        "RPD852",
                        f"DaemonSet {full}",
                        f"It wants a pod on {name}, which has no {device} and is for Ray's head, and "
                        f"{ready} of its {wants} pods are ready: the pod there ends again and again.",
                        "A node affinity in the DaemonSet that names the types with that device.",
                    )


def driver_on_nodes(site: Site) -> Iterator[Outcome]:
    """GPU nodes that tell their driver (GPU feature discovery) have one for the image's CUDA."""
    cuda, said = cuda_of(site)
    needed = load("preflight.yaml")["driverOfCuda"].get(cuda)
    if needed is None:
        raise NotChecked(f"the driver that CUDA {cuda} needs is not known")
    drivers: dict[str, str] = {}
    for group in groups_of(site):
        if GPU in group.request:
            for node in selected(site, group):
                known = labels(node)
                drivers[node["metadata"]["name"]] = next(
                    (known[key] for key in _DRIVER if key in known), ""
                )
    untold = [name for name, driver in drivers.items() if not driver]
    if untold or not drivers:
        yield NotChecked(
            f"{', '.join(untold)} have no label that tells it (GPU feature discovery writes them)"
            if untold
            else "no node with GPUs is there"
        )
    for name, driver in drivers.items():
        branch = re.match(r"\d+", driver)
        if branch and int(branch[0]) < needed:
            yield error(
                "RPD824",
                f"node {name}",
                f"Its driver is {driver}, and CUDA {cuda} ({said}) needs {needed} or newer: engines "
                "end with `CUDA driver version is insufficient`.",
                "A newer machine image: `eksctl upgrade nodegroup`, or a newer driver of the GPU "
                "operator.",
            )
        elif branch:
            yield Seen(f"{name} has {driver}")


def groups_of(site: Site) -> list[Wanted]:
    return wanted_pods(site.kube.case.subject)


def selected(site: Site, group: Wanted) -> list[Json]:
    """The nodes with the labels that the group selects. Raises NotChecked when nodes cannot be seen."""
    facts = site.kube.case.facts
    if "nodes" in facts.unseen:
        raise NotChecked(facts.unseen["nodes"])
    pod = {"metadata": {"name": group.group, "labels": group.labels}, "spec": group.pod}
    state = Snapshot("", "", "", nodes=facts.nodes, pods=[])
    return [
        node
        for node in facts.nodes
        if not any(found.kind == "labels" for found in obstacles(pod, node, state))
    ]


CHECKS = [
    ("devices by node and the DaemonSets behind them", devices_offered),
    ("device plugins on the head's node", plugins_on_head),
    ("NVIDIA's driver on the nodes", driver_on_nodes),
]
