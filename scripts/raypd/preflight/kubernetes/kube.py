"""The cluster of a kubeconfig, read once for all checks."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from kubernetes.config import ConfigException, list_kube_config_contexts

from raypd.live.cluster import Cluster
from raypd.live.install.facts import gather
from raypd.live.install.preconditions import Case
from raypd.preflight.outcome import NotChecked, Once
from raypd.render import Rendered
from raypd.report import UsageError

Json = dict[str, Any]

_STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
# As `aws eks update-kubeconfig` and eksctl name a cluster in a kubeconfig.
_EKS = (
    re.compile(r"arn:[a-z-]+:eks:(?P<region>[a-z0-9-]+):\d{12}:cluster/(?P<name>[\w-]+)"),
    re.compile(r"(?P<name>[\w-]+)\.(?P<region>[a-z0-9-]+)\.eksctl\.io"),
)


def eks_cluster(kubeconfig: Path | None, context: str | None) -> tuple[str, str] | None:
    """(name, region) of the EKS cluster that a context means; None when it names none."""
    try:
        contexts, current = list_kube_config_contexts(str(kubeconfig) if kubeconfig else None)
    except (ConfigException, TypeError, OSError):
        return None
    chosen = next((c for c in contexts if c["name"] == context), None) if context else current
    name = str(((chosen or {}).get("context") or {}).get("cluster") or "")
    for pattern in _EKS:
        if found := pattern.fullmatch(name):
            return found["name"], found["region"]
    return None


class Kube:
    """The cluster that the render is to go onto. `expected` is the EKS cluster's name by the eksctl
    config: a current context that means another one is not looked at, unless it was named."""

    def __init__(
        self,
        rendered: Rendered,
        release: str,
        namespace: str,
        versions: Json,
        kubeconfig: Path | None = None,
        context: str | None = None,
        expected: str | None = None,
    ) -> None:
        self._rendered, self._release, self._namespace = rendered, release, namespace
        self._versions = versions
        self._kubeconfig, self._context, self._expected = kubeconfig, context, expected
        self._lock = threading.Lock()
        self._lists: dict[str, Once[list[Json]]] = {}
        self._cluster = Once(self._connect)
        self._case = Once(self._gather)

    @property
    def cluster(self) -> Cluster:
        """The connection. Raises NotChecked when there is none."""
        return self._cluster()

    @property
    def case(self) -> Case:
        """What the cluster has of what the render needs. Raises NotChecked when it is out of reach."""
        return self._case()

    def list(self, path: str) -> list[Json]:
        """All objects at a list's path, read once; [] where the server has no such kind. Raises
        NotChecked when the user may not see them."""
        with self._lock:
            if path not in self._lists:
                self._lists[path] = Once(lambda: self._list(path))
        return self._lists[path]()

    def get(self, path: str) -> Json | None:
        """The object at a path, None when there is none. Raises NotChecked as `list` does."""
        try:
            return self.cluster.get(path)
        except LookupError:
            return None
        except UsageError as refusal:
            raise NotChecked(str(refusal)) from refusal

    def volume_sources(self, claim: Json) -> list[Json]:
        """The StorageClass or PersistentVolume that a claim of the values is made of."""
        if name := claim.get("existingClaim"):
            path = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}"
            volume = ((self.get(path) or {}).get("spec") or {}).get("volumeName")
            found = self.get(f"/api/v1/persistentvolumes/{volume}") if volume else None
        else:
            name = claim.get("storageClassName")
            found = self.get(f"{_STORAGE}/{name}") if name else None
        return [found] if found else []

    def _connect(self) -> Cluster:
        found = eks_cluster(self._kubeconfig, self._context)
        if self._expected and self._context is None and found and found[0] != self._expected:
            raise NotChecked(
                f"the kubeconfig's current context is the EKS cluster {found[0]}, and the eksctl "
                f"config makes {self._expected}: choose one with --context"
            )
        try:
            return Cluster(self._kubeconfig, self._context)
        except UsageError as reason:
            raise NotChecked(str(reason)) from reason

    def _gather(self) -> Case:
        try:
            facts = gather(self.cluster, self._rendered, self._namespace)
        except UsageError as reason:
            raise NotChecked(str(reason)) from reason
        return Case(self._rendered, self._release, self._namespace, self._versions, facts)

    def _list(self, path: str) -> list[Json]:
        self.case  # noqa: B018 - a cluster that is out of reach has timed out once already
        try:
            return self.cluster.list(path)
        except LookupError:
            return []
        except UsageError as refusal:
            raise NotChecked(str(refusal)) from refusal
