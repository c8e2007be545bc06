"""The cluster on paper with everything that the checks of preflight look at beside what `up` does."""

from __future__ import annotations

import copy
from typing import Any

from raypd.preflight.site import Site
from raypd.render import Rendered
from unit.live import paper
from unit.live.paper import FakeCluster
from unit.preflight.simulated import PaperKube, site

Json = dict[str, Any]
EFA_TAINT = {"key": "aws.amazon.com/efa", "value": "true", "effect": "NoSchedule"}


class Cluster(FakeCluster):
    """Tries manifests out as well: `refuses` are by kind the exceptions that it raises."""

    def __init__(self, objects: dict[str, Json] | None = None, forbidden: tuple[str, ...] = ()):
        super().__init__(objects, forbidden)
        self.tried: list[tuple[Json, bool]] = []
        self.refuses: dict[str, Exception] = {}

    def try_out(self, manifest: Json, strict: bool = True) -> None:
        self.tried.append((manifest, strict))
        if manifest["kind"] in self.refuses:
            raise self.refuses[manifest["kind"]]


def daemonset(name: str, **changes: Any) -> Json:
    """A DaemonSet of kube-system with as many pods ready as it wants."""
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"tolerations": changes.get("tolerations", [])}}},
        "status": {
            "desiredNumberScheduled": changes.get("wanted", 3),
            "numberReady": changes.get("ready", 3),
        },
    }


def daemonsets(*made: Json) -> dict[str, Json]:
    return {f"/apis/apps/v1/daemonsets/{item['metadata']['name']}": item for item in made}


def nodes() -> list[Json]:
    """The three nodes as eksctl makes them."""
    made = copy.deepcopy(paper.nodes())
    for node in made[1:]:
        node["spec"]["taints"] = [dict(EFA_TAINT)]
    return made


def on(cluster: Any = None, rendered: Rendered | None = None, **parts: Any) -> Site:
    """The reference on this cluster; `facts` are changes of what it has, `values` the merged values."""
    rendered = rendered or paper.rendered()
    known = {"nodes": nodes(), **parts.pop("facts", {})}
    kube = PaperKube(rendered, cluster or Cluster(), paper.facts(**known))
    return site(rendered=rendered, kube=kube, **parts)
