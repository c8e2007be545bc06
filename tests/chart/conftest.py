"""What the chart tests share: the packaged chart, Helm 3 and 4, and schemas of all kinds it renders.

What is tested is the packaged .tgz, because .helmignore decides what a user really gets.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from chart.rendering import CHART, Render, run_helm
from raypd import yaml_text
from raypd.toolchain import binary, go, helm, kuberay_module

KUBERNETES = "1.35.0"
# Modules whose CRDs the optional objects are checked against.
CRD_MODULES = {
    ("github.com/prometheus-operator/prometheus-operator", "v0.85.0"): [
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ],
    ("sigs.k8s.io/gateway-api", "v1.4.0"): [
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ],
}
BUILTIN_KINDS = {
    "configmap-v1",
    "ingress-networking-v1",
    "job-batch-v1",
    "networkpolicy-networking-v1",
    "persistentvolumeclaim-v1",
    "pod-v1",
    "poddisruptionbudget-policy-v1",
    "secret-v1",
    "serviceaccount-v1",
}


@pytest.fixture(scope="session", params=[3, 4], ids=["helm3", "helm4"])
def each_helm(request: pytest.FixtureRequest) -> Path:
    return helm(request.param)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged chart, as `helm package` makes it."""
    folder = tmp_path_factory.mktemp("package")
    run_helm(helm(4), "package", str(CHART), "--destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    return archive


@pytest.fixture(scope="session")
def render(package: Path) -> Render:
    return Render(package)


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the JSON schema of every kind that the chart renders, strict.

    KIND-GROUP-VERSION.json, group cut at its first dot; for CRDs made of their OpenAPI schemas.
    """
    folder = tmp_path_factory.mktemp("schemas")
    files = [kuberay_module() / "config/crd/bases/ray.io_rayservices.yaml"]
    for (module, version), paths in CRD_MODULES.items():
        files += [go.module(module, version) / path for path in paths]
    # The built-in kinds point to their shared definitions by the path on a server, their `$id`.
    builtin = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    for file in (builtin / f"v{KUBERNETES}-local-strict").glob("*.json"):
        if file.stem in BUILTIN_KINDS or file.stem == "_definitions":
            schema = json.loads(file.read_text().replace("/api/_def", f"file://{folder}/_def"))
            (folder / file.name).write_text(
                json.dumps(schema | {"$id": f"file://{folder}/{file.name}"})
            )
    for file in files:
        crd = yaml_text.load(file.read_text())
        for version in crd["spec"]["versions"]:
            group = crd["spec"]["group"].split(".")[0]
            name = f"{crd['spec']['names']['kind']}-{group}-{version['name']}.json"
            schema = closed(version["schema"]["openAPIV3Schema"])
            (folder / name.lower()).write_text(json.dumps(schema))
    return folder


def closed(schema: Any) -> Any:
    """An OpenAPI schema as JSON Schema that refuses unknown keys, which a server would prune."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        if (
            schema.get("x-kubernetes-preserve-unknown-fields")
            or "apiVersion" in schema["properties"]
        ):
            return schema
        # metadata has no properties in a CRD and stays open; everything named is closed.
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    return schema


@pytest.fixture(scope="session")
def conforms(schemas: Path) -> Callable[[str], None]:
    """Asserts that kubeconform accepts manifests, strictly, with nothing skipped."""

    def check(manifests: str) -> None:
        done = subprocess.run(
            [
                binary("kubeconform"),
                *("-strict", "-summary", "-output", "json"),
                *("-schema-location", f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"),
            ],
            input=manifests,
            capture_output=True,
            text=True,
            timeout=120,
        )
        report = json.loads(done.stdout)
        summary = report["summary"]
        assert summary["invalid"] == summary["errors"] == summary["skipped"] == 0, done.stdout
        assert summary["valid"] > 0

    return check
