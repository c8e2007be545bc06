"""One Helm release of the chart on a cluster: install, wait, look, remove."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

from cluster.load import Endpoint
from cluster.target import Target
from live.deployed import Deployed
from raypd.live.forward import forward
from raypd.live.snapshot import SERVE_PORT

NAMESPACE = "inference"
NAME = "llm"
RAYSERVICE = "llm-ray-pd-llm"
RAYSERVICES = {"group": "ray.io", "version": "v1", "namespace": NAMESPACE, "plural": "rayservices"}
SELECTOR = f"app.kubernetes.io/instance={NAME}"
LOG_LINES = 40
GONE_SECONDS = 300  # an engine's grace period is 120; KubeRay's job that empties a Redis follows
STARTS_SECONDS = 1200  # for a small and busy machine; a quiet one needs a fraction


class Release:
    """`deployed` is the same release as `raypd` reaches it."""

    def __init__(self, target: Target, package: Path) -> None:
        self.target = target
        self.package = package
        self.deployed = Deployed(target.kubeconfig, NAME, NAMESPACE, stays=True)
        self.served: tuple[Path, ...] = ()  # the values that serve; none while that is unsure
        self._before: tuple[Path, ...] = ()

    def make_namespace(self) -> None:
        """The namespace and the secret that the reference values name."""
        core = self.target.core
        meta = client.V1ObjectMeta
        core.create_namespace(client.V1Namespace(metadata=meta(name=NAMESPACE)))
        secret = client.V1Secret(metadata=meta(name="hf-token"), string_data={"HF_TOKEN": "unused"})
        core.create_namespaced_secret(NAMESPACE, secret)

    def serve(self, *values: Path) -> None:
        """Has these values files served, by `raypd up`; another installation is removed first."""
        if self.served != values:
            self.clear()
            self.up(*values)

    def up(self, *values: Path) -> None:
        """`raypd up`: installs or upgrades, and waits until it serves."""
        self.served = ()
        self.deployed.up(self.package, self._adapted(values), STARTS_SECONDS)
        self.served = values

    def install(self, *values: Path, adapt: bool = True) -> None:
        """`helm install`, which waits for nothing; `adapt` lays over the values what the cluster needs
        to run engines."""
        self._helm("install", self.package, self._adapted(values) if adapt else [*values])

    def upgrade(self, *values: Path, package: Path | None = None) -> None:
        """`helm upgrade` to these values files, and to another package if one is given."""
        self._before, self.served = self.served, ()
        self._helm("upgrade", package or self.package, self._adapted(values))

    def rollback(self) -> None:
        """`helm rollback` of the last upgrade."""
        self.target.helm("rollback", NAME, "-n", NAMESPACE)
        self.served = self._before

    def _adapted(self, values: tuple[Path, ...]) -> list[Path]:
        return [*values, *([self.target.values] if self.target.values else [])]

    def _helm(self, verb: str, package: Path, values: list[Path]) -> None:
        options = [part for file in values for part in ("--values", str(file))]
        self.target.helm(verb, NAME, str(package), "-n", NAMESPACE, *options)

    def clear(self) -> None:
        """Uninstalls what is there, if anything is, and waits until its pods are gone."""
        self.served = ()
        if self.target.helm("list", "-n", NAMESPACE, "-q").strip():
            self.uninstall()
        self.wait("the pods' end", lambda: not self.pods(), GONE_SECONDS)

    def uninstall(self) -> None:
        self.served = ()
        self.target.helm("uninstall", NAME, "-n", NAMESPACE, "--wait", seconds=GONE_SECONDS)

    def application(self) -> str:
        """The application's status as KubeRay reports it; "" while there is none."""
        status = self.rayservice().get("status", {}).get("activeServiceStatus", {})
        applications = status.get("applicationStatuses") or {}
        return applications.get("llm", {}).get("status", "")

    def rayservice(self) -> dict[str, Any]:
        return self.target.custom.get_namespaced_custom_object(name=RAYSERVICE, **RAYSERVICES)

    def pods(self, component: str | None = None) -> list[client.V1Pod]:
        selector = SELECTOR + (f",app.kubernetes.io/component={component}" if component else "")
        return self.target.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items

    def pod(self, component: str) -> client.V1Pod:
        (pod,) = self.pods(component)
        return pod

    def uids(self, component: str) -> set[str]:
        """What tells a pod from the one that took its place."""
        return {pod.metadata.uid for pod in self.pods(component)}

    def whole(self) -> bool:
        """Every pod that the RayService asks for is ready, no other is there, and they serve."""
        groups = self.rayservice()["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        wanted = {group["groupName"]: group["replicas"] for group in groups} | {"head": 1}
        return self.application() == "RUNNING" and all(
            [is_ready(pod) for pod in self.pods(component)] == [True] * count
            for component, count in wanted.items()
        )

    def execute(self, pod: client.V1Pod, command: str) -> str:
        """What a shell command in the pod's first container prints."""
        return stream(
            self.target.core.connect_get_namespaced_pod_exec,
            pod.metadata.name,
            NAMESPACE,
            container=pod.spec.containers[0].name,
            command=["bash", "-c", command],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
        )

    def endpoint(self) -> Endpoint:
        """The Service, from this machine; skips the test where it cannot be reached."""
        if not self.target.simulated:
            pytest.skip("this machine cannot reach the cluster's service addresses")
        url = f"http://{self.service().spec.cluster_ip}:{SERVE_PORT}"
        models = httpx.get(f"{url}/v1/models", timeout=60, trust_env=False).json()["data"]
        return Endpoint(url, models[0]["id"])

    def service(self) -> client.V1Service:
        return self.target.core.read_namespaced_service(f"{RAYSERVICE}-serve-svc", NAMESPACE)

    def metrics(self, component: str) -> str:
        """What Prometheus would read from the component's pod."""
        return self._get(component, 8080, "metrics")

    def engines(self, role: str) -> set[str]:
        """The ids of the role's replicas that Ray Serve calls RUNNING."""
        answer = json.loads(self._get("head", 8265, "api/serve/applications/"))
        found = answer["applications"]["llm"]["deployments"]
        return {
            replica["replica_id"]
            for name, deployment in found.items()
            if name.startswith(f"{role.capitalize()}:")
            for replica in deployment["replicas"]
            if replica["state"] == "RUNNING"
        }

    def _get(self, component: str, port: int, path: str) -> str:
        """What the component's pod answers, asked from inside: its NetworkPolicy lets the API server
        in no more than others."""
        name = self.pod(component).metadata.name
        with forward(self.deployed.cluster, NAMESPACE, name, port) as http:
            return http.get(path).raise_for_status().text

    def test(self) -> str:
        """`helm test`, with the output of its pod."""
        return self.target.helm("test", NAME, "-n", NAMESPACE, "--logs", seconds=400)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds:.0f} s\n{self.report()}")
            time.sleep(1)

    def report(self) -> str:
        """What someone would look at who finds the release not running."""
        core = self.target.core
        lines = []
        with suppress(ApiException):
            lines.append(f"RayService status: {self.rayservice().get('status')}")
        for pod in core.list_namespaced_pod(NAMESPACE).items:
            lines.append(f"pod {pod.metadata.name} on {pod.spec.node_name}: {pod.status.phase}")
            for state in pod.status.container_statuses or []:
                lines.append(f"  {state.name}: ready {state.ready}, {state.state.to_dict()}")
                with suppress(ApiException):
                    log = core.read_namespaced_pod_log(
                        pod.metadata.name, NAMESPACE, container=state.name, tail_lines=LOG_LINES
                    )
                    lines.append(log)
        for event in core.list_namespaced_event(NAMESPACE).items:
            lines.append(f"event {event.involved_object.name}: {event.reason}: {event.message}")
        return "\n".join(lines)

    def remove(self) -> None:
        """Removes the release, if it is there, and the namespace."""
        self.clear()
        core = self.target.core
        core.delete_namespace(NAMESPACE)
        self.wait(
            "the namespace's end",
            lambda: NAMESPACE not in [n.metadata.name for n in core.list_namespace().items],
            GONE_SECONDS,
        )


def is_ready(pod: client.V1Pod) -> bool:
    conditions = {c.type: c.status for c in pod.status.conditions or []}
    return conditions.get("Ready") == "True" and not pod.metadata.deletion_timestamp
