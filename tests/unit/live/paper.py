"""A cluster on paper that the chart's defaults fit, and a stand-in for the connection to one."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from raypd import yaml_text
from raypd.live.cluster import Forbidden
from raypd.live.install.crd import schema_of
from raypd.live.install.facts import Facts
from raypd.live.install.preconditions import Case
from raypd.render import Rendered, ValueArguments, default_chart, render
from raypd.toolchain import kuberay_module

Json = dict[str, Any]

VERSIONS = {"kuberay": ["1.4", "1.5", "1.6", "1.7"], "kubernetes": ["1.34", "1.35"]}
KINDS: dict[str, dict[str, tuple[str, bool]] | None] = {
    "v1": {
        "ServiceAccount": ("serviceaccounts", True),
        "Pod": ("pods", True),
        "ConfigMap": ("configmaps", True),
    },
    "networking.k8s.io/v1": {"NetworkPolicy": ("networkpolicies", True)},
    "policy/v1": {"PodDisruptionBudget": ("poddisruptionbudgets", True)},
    "ray.io/v1": {
        "RayService": ("rayservices", True),
        "RayCluster": ("rayclusters", True),
    },
}


@cache
def crd() -> Json:
    """RayService's CRD of the pinned KubeRay."""
    path = kuberay_module() / "config" / "crd" / "bases" / "ray.io_rayservices.yaml"
    return yaml_text.load(path.read_text(encoding="utf-8"))


@cache
def _rendered(set_: tuple[str, ...]) -> Rendered:
    return render(default_chart(), ValueArguments(set_=list(set_)))


def rendered(*set_: str) -> Rendered:
    """The chart's defaults with these values, the caller's to change."""
    return copy.deepcopy(_rendered(set_))


def schema() -> Json:
    """RayService's schema."""
    found = schema_of(crd(), "v1")
    assert found is not None
    return found


def node(name: str, labels: Json, **allocatable: str) -> Json:
    """A node that is ready, with so much for pods ("nvidia.com/gpu" is written gpu, and so on)."""
    names = {"gpu": "nvidia.com/gpu", "efa": "vpc.amazonaws.com/efa"}
    offers = {names.get(key, key): value for key, value in allocatable.items()}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {
            "allocatable": {"pods": "58", **offers},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def nodes() -> list[Json]:
    """The two g6.8xlarge and the m7i.xlarge of the reference."""
    gpu = {
        "role": "gpu-worker",
        "node.kubernetes.io/instance-type": "g6.8xlarge",
        "topology.kubernetes.io/zone": "us-east-1a",
    }
    return [
        node("system", {"role": "system"}, cpu="3920m", memory="15Gi"),
        *(
            node(name, dict(gpu), cpu="31850m", memory="123Gi", gpu="1", efa="1")
            for name in ("gpu-a", "gpu-b")
        ),
    ]


def operator(**changes: Any) -> Json:
    """KubeRay's Deployment as its chart makes it."""
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    return {
        "metadata": {
            "name": "kuberay-operator",
            "namespace": changes.get("namespace", "kuberay-system"),
            "labels": labels,
        },
        "spec": {
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "image": changes.get("image", "quay.io/kuberay/operator:v1.6.2"),
                            "args": changes.get("args", []),
                        }
                    ]
                },
            }
        },
        "status": {"readyReplicas": changes.get("ready", 1)},
    }


def facts(**changes: Any) -> Facts:
    """What the cluster on paper has, with some of it changed."""
    known: Json = {
        "server": "v1.35.4-eks-113cf36",
        "namespace": {"metadata": {"name": "inference"}},
        "kinds": KINDS,
        "crd": crd(),
        "operators": [operator()],
        "nodes": nodes(),
    }
    return Facts(**{**known, **changes})


def case(rendered: Rendered, **changes: Any) -> Case:
    """A render on the cluster on paper."""
    return Case(rendered, "llm", "inference", VERSIONS, facts(**changes))


class FakeCluster:
    """Answers from `objects`, by path; lists are those below a path. `forbidden` are paths that the
    user may not read. What was written is in `applied`, `deleted` and `created`."""

    def __init__(self, objects: dict[str, Json] | None = None, forbidden: tuple[str, ...] = ()):
        self.objects = {"/version": {"gitVersion": "v1.35.4"}, **(objects or {})}
        self.forbidden = forbidden
        self.allowed = True
        self.applied: list[Json] = []
        self.deleted: list[str] = []
        self.created: list[Json] = []

    def get(self, path: str, **_: str) -> Json:
        if path in self.forbidden:
            raise Forbidden(f"you may not get {path}")
        if path not in self.objects:
            raise LookupError(path)
        return self.objects[path]

    def list(self, path: str, selector: str = "") -> list[Json]:
        if path in self.forbidden:
            raise Forbidden(f"you may not list {path}")
        wanted = dict(part.split("=") for part in selector.split(",") if part)
        return [
            item
            for key, item in self.objects.items()
            if key.rpartition("/")[0] == path
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]

    def create(self, path: str, manifest: Json) -> Json:
        self.created.append(manifest)
        return {"status": {"allowed": self.allowed}}

    def apply(self, manifest: Json) -> Json:
        self.applied.append(manifest)
        return manifest

    def delete(self, path: str, **_: str) -> bool:
        self.deleted.append(path)
        return self.objects.pop(path, None) is not None

    @staticmethod
    def wait(condition: Any, seconds: float, pause: float = 1) -> bool:
        return any(condition() for _ in range(3))
