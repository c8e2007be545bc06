"""KubeRay's CRDs and operator, from the files of its own release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cluster.devcluster.api import Api
from cluster.devcluster.images import Image
from raypd.toolchain import kuberay_module

NAMESPACE = "kuberay-system"
NAME = "kuberay-operator"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"


def install(api: Api, image: Image) -> None:
    """Applies all; `running` tells when the operator is at work."""
    install_crds(api)
    config = kuberay_module() / "config"
    api.apply(
        f"/api/v1/namespaces/{NAMESPACE}",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    )
    api.apply(
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
    )
    role = yaml.safe_load((config / "rbac" / "role.yaml").read_text())
    api.apply(f"{RBAC}/clusterroles/{NAME}", role)
    binding = yaml.safe_load((config / "rbac" / "role_binding.yaml").read_text())
    binding["subjects"][0]["namespace"] = NAMESPACE
    api.apply(f"{RBAC}/clusterrolebindings/{NAME}", binding)
    api.apply(DEPLOYMENT, _deployment(config / "manager" / "manager.yaml", image))


def install_crds(api: Api, folder: Path | None = None) -> None:
    """Applies the CRDs in `folder`, whose files are named GROUP_PLURAL.yaml; by default KubeRay's."""
    for file in sorted((folder or kuberay_module() / "config" / "crd" / "bases").glob("*_*.yaml")):
        group, plural = file.stem.split("_")
        api.apply(f"{CRDS}/{plural}.{group}", file.read_bytes())


def served(api: Api) -> bool:
    """Whether the API server answers for the CRDs, which takes it a moment."""
    try:
        api.get("/apis/ray.io/v1/rayservices")
    except RuntimeError:
        return False
    return True


def running(api: Api) -> bool:
    return api.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0) > 0


def _deployment(file: Any, image: Image) -> dict[str, Any]:
    manifest = yaml.safe_load(file.read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    pod = manifest["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"role": "system"}
    container = pod["containers"][0]
    container["image"] = image.name
    # A tenth of a core makes the operator wait on itself; a probe need not wait for ten seconds.
    container["resources"]["limits"].pop("cpu")
    container["readinessProbe"].update(initialDelaySeconds=1, periodSeconds=1)
    return manifest
