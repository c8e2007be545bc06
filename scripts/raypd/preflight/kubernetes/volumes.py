"""Whether what mounts the volumes runs on the nodes that mount them."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.data import load
from raypd.lint.subject import error, mapping
from raypd.live.diagnosis.fit import not_wanted
from raypd.preflight.kubernetes.devices import DAEMONSETS, groups_of, selected
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Site


def driver_pods_on_nodes(site: Site) -> Iterator[Outcome]:
    """The CSI driver of the cache's volume has a pod on each node that engines run on."""
    cache = site.block("cache")
    if cache.get("type") != "persistentVolumeClaim":
        yield Idle("no claim is mounted")
        return
    names = load("preflight.yaml")["csiDaemonSets"]
    drivers = {
        driver
        for source in site.kube.volume_sources(mapping(cache.get("persistentVolumeClaim")))
        if (driver := _driver(source))
    }
    if not drivers:
        raise NotChecked("what makes the claim's volume is not known yet")
    daemonsets = site.kube.list(DAEMONSETS)
    for driver in sorted(drivers):
        found = [d for d in daemonsets if d["metadata"]["name"] == names.get(driver)]
        if not found:
            yield NotChecked(f"the DaemonSet of {driver} is not known")
            continue
        daemonset = found[0]
        kept_off: dict[str, str] = {}
        for group in groups_of(site)[1:]:
            for node in selected(site, group):
                if against := not_wanted(daemonset, node):
                    kept_off[node["metadata"]["name"]] = against[0].detail
        for node_name, detail in kept_off.items():
            yield error(
                "RPD853",
                f"node {node_name}",
                f"The CSI driver {driver} has no pod there: the DaemonSet "
                f"{daemonset['metadata']['name']} leaves it out because it {detail}. Engines there "
                "stay in ContainerCreating (driver name not found).",
                "A toleration in the DaemonSet: `node.tolerateAllTaints: true` of the driver's chart "
                "or add-on.",
            )
        yield Seen(driver)


def _driver(source: dict[str, object]) -> str:
    csi = mapping(mapping(source.get("spec")).get("csi"))
    return str(csi.get("driver") or source.get("provisioner") or "")


CHECKS = [("CSI driver on the engines' nodes", driver_pods_on_nodes)]
