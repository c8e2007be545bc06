"""`raypd preflight` on clusters that are wrong in one thing each, before anything is installed.

API server, controllers and scheduler are real; the nodes are those of the shipped eksctl config,
simulated. Only the checks of the cluster are made: AWS, registries and the hub stay unasked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml
from kubernetes import client, utils

from chart.rendering import CHART, ROOT
from cluster.devcluster import kuberay, layout, lifecycle, nodeless, simulated
from cluster.devcluster.api import Api, wait
from cluster.devcluster.layout import Addresses
from cluster.release import NAMESPACE
from cluster.target import Target
from raypd.preflight import checks
from raypd.preflight.verb import site_of
from raypd.render import ValueArguments, render
from raypd.render.helm import merged_values
from raypd.report import Finding, Report

NAME = "preflight"
SECONDS = 120
GPU = "nvidia.com/gpu"
NODE = "/api/v1/nodes/gpu-a"
CRD = f"{kuberay.CRDS}/rayservices.ray.io"
KUBERNETES = [check for check in checks.CHECKS if check.side == "Kubernetes"]

# What the cluster of the reference deployment has besides nodes. Nobody looks into the images, since
# KWOK says of every pod that it runs.
PRESENT = """
apiVersion: v1
kind: Namespace
metadata: {name: inference}
---
apiVersion: v1
kind: Namespace
metadata: {name: kuberay-system}
---
apiVersion: v1
kind: Secret
metadata: {name: hf-token, namespace: inference}
stringData: {HF_TOKEN: unused}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kuberay-operator, namespace: kuberay-system, labels: {app.kubernetes.io/name: kuberay-operator}}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec:
      nodeSelector: {role: system}
      containers: [{name: operator, image: "quay.io/kuberay/operator:v1.6.2"}]
"""

PLUGIN = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset, namespace: kube-system}
spec:
  selector: {matchLabels: {app: plugin}}
  template:
    metadata: {labels: {app: plugin}}
    spec:
      containers: [{name: plugin, image: plugin}]
"""


@pytest.fixture(scope="module")
def made(root: None) -> Iterator[Target]:
    state = nodeless.up(NAME)
    try:
        api = lifecycle.api_of(state)
        simulated.start(state)
        for node in layout.nodes(Addresses(state.second)):
            simulated.add(api, node)
        target = Target(state.kubeconfig, None, state)
        utils.create_from_yaml(
            target.core.api_client, yaml_objects=list(yaml.safe_load_all(PRESENT))
        )
        wait("the operator's pod", lambda: _operator_runs(api), SECONDS)
        yield target
    finally:
        lifecycle.down(NAME)


@pytest.fixture
def api(made: Target) -> Api:
    assert made.made is not None
    return lifecycle.api_of(made.made)


def test_the_reference_deployment_may_be_installed(made):
    report = _preflight(made)
    assert [finding for finding in report.findings if finding.severity == "error"] == []
    assert any("gpu-a 1 nvidia.com/gpu" in line for line in report.checked)


def test_a_plugin_that_is_missing(made, api):
    with _without_gpu(api):
        finding = _found(made, "RPD851", also="RPD697")
    assert finding.path == "node gpu-a"
    assert f"no {GPU}" in finding.message
    assert f"no device plugin for {GPU} is in the cluster" in finding.message


def test_a_plugin_that_a_taint_keeps_away(made, api):
    (taint,) = api.get(NODE)["spec"]["taints"]
    apps = client.AppsV1Api(made.core.api_client)
    plugin = yaml.safe_load(PLUGIN)
    apps.create_namespaced_daemon_set("kube-system", plugin)
    try:
        with _without_gpu(api):
            finding = _found(made, "RPD851", also="RPD697")
    finally:
        apps.delete_namespaced_daemon_set(plugin["metadata"]["name"], "kube-system")
    assert plugin["metadata"]["name"] in finding.message
    assert taint["key"] in finding.message


def test_a_taint_that_no_pod_tolerates(made, api):
    before = api.get(NODE)["spec"]["taints"]
    wrong = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    made.core.patch_node("gpu-a", {"spec": {"taints": [*before, wrong]}})
    try:
        finding = _found(made, "RPD697")
    finally:
        made.core.patch_node("gpu-a", {"spec": {"taints": before}})
    assert "team=vision:NoSchedule" in finding.message


def test_nodes_of_another_role(made):
    made.core.patch_node("gpu-b", {"metadata": {"labels": {"role": "gpu"}}})
    try:
        finding = _found(made, "RPD697")
    finally:
        made.core.patch_node("gpu-b", {"metadata": {"labels": {"role": "gpu-worker"}}})
    assert "1 of" in finding.message or "gpu-a" in finding.message


def test_a_crd_of_an_older_kuberay(made, api):
    crds = client.ApiextensionsV1Api(made.core.api_client)
    index = next(i for i, v in enumerate(api.get(CRD)["spec"]["versions"]) if v["name"] == "v1")
    gone = (
        f"/spec/versions/{index}/schema/openAPIV3Schema/properties/spec/properties/upgradeStrategy"
    )
    crds.patch_custom_resource_definition("rayservices.ray.io", [{"op": "remove", "path": gone}])
    try:
        finding = _found(made, "RPD682")
    finally:
        kuberay.install_crds(api)
    assert "upgradeStrategy" in finding.message + finding.path


def test_a_namespace_for_restricted_pods_alone(made):
    level = "pod-security.kubernetes.io/enforce"
    made.core.patch_namespace(NAMESPACE, {"metadata": {"labels": {level: "restricted"}}})
    try:
        finding = _found(made, "RPD691")
    finally:
        made.core.patch_namespace(NAMESPACE, {"metadata": {"labels": {level: None}}})
    assert "restricted" in finding.message


def test_a_secret_without_the_key(made):
    made.core.replace_namespaced_secret(
        "hf-token",
        NAMESPACE,
        client.V1Secret(
            metadata=client.V1ObjectMeta(name="hf-token"), string_data={"token": "unused"}
        ),
    )
    try:
        finding = _found(made, "RPD693")
    finally:
        made.core.replace_namespaced_secret(
            "hf-token",
            NAMESPACE,
            client.V1Secret(
                metadata=client.V1ObjectMeta(name="hf-token"), string_data={"HF_TOKEN": "unused"}
            ),
        )
    assert "HF_TOKEN" in finding.message


@pytest.mark.parametrize(
    ("setting", "code", "words"),
    [
        ("cache.persistentVolumeClaim.storageClassName=fast", "RPD695", "fast"),
        ("httpRoute.enabled=true", "RPD681", "HTTPRoute"),
    ],
)
def test_values_that_want_what_is_not_there(made, setting, code, words):
    more = {
        "RPD695": ["cache.type=persistentVolumeClaim"],
        "RPD681": ["httpRoute.parentRefs[0].name=gateway"],
    }
    finding = _found(made, code, settings=[*more[code], setting])
    assert words in finding.message + finding.path


def _preflight(made: Target, settings: list[str] | None = None) -> Report:
    arguments = ValueArguments([ROOT / "values" / "g6-qwen3.5-9b.yaml"], set_=settings or [])
    rendered = render(CHART, arguments, "llm", NAMESPACE)
    values = merged_values(CHART, arguments)
    return checks.run(
        site_of(CHART, rendered, values, kubeconfig=made.kubeconfig), checks=KUBERNETES
    )


def _found(
    made: Target, code: str, settings: list[str] | None = None, also: str | None = None
) -> Finding:
    """The finding that this is about; `also` follows from it. A cluster that is wrong in one thing has
    no other error."""
    report = _preflight(made, settings)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert {finding.code for finding in errors} == {code, also} - {None}, report
    return next(finding for finding in errors if finding.code == code)


@contextmanager
def _without_gpu(api: Api) -> Iterator[None]:
    def offer(count: str | None) -> None:
        device = {GPU: count}
        api.merge(f"{NODE}/status", {"status": {"capacity": device, "allocatable": device}})

    offer(None)
    try:
        yield
    finally:
        offer("1")


def _operator_runs(api: Api) -> bool:
    path = "/apis/apps/v1/namespaces/kuberay-system/deployments/kuberay-operator"
    return api.get(path).get("status", {}).get("readyReplicas", 0) > 0
