"""One Helm release of the chart on a cluster: install, wait, look, remove."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.rest import ApiException

from cluster.target import Target

NAMESPACE = "inference"
NAME = "llm"
RAYSERVICE = "llm-ray-pd-llm"
RAYSERVICES = {"group": "ray.io", "version": "v1", "namespace": NAMESPACE, "plural": "rayservices"}
SELECTOR = f"app.kubernetes.io/instance={NAME}"
LOG_LINES = 40
GONE_SECONDS = 180  # an engine's grace period is 120


class Release:
    def __init__(self, target: Target, package: Path) -> None:
        self.target = target
        self.package = package

    def make_namespace(self) -> None:
        """The namespace and the secret that the reference values name."""
        core = self.target.core
        meta = client.V1ObjectMeta
        core.create_namespace(client.V1Namespace(metadata=meta(name=NAMESPACE)))
        secret = client.V1Secret(metadata=meta(name="hf-token"), string_data={"HF_TOKEN": "unused"})
        core.create_namespaced_secret(NAMESPACE, secret)

    def install(self, *values: Path, adapt: bool = True) -> None:
        """Installs with these values files; `adapt` lays over them what the cluster needs to run
        engines."""
        files = [*values, *([self.target.values] if adapt and self.target.values else [])]
        options = [part for file in files for part in ("--values", str(file))]
        self.target.helm("install", NAME, str(self.package), "-n", NAMESPACE, *options)

    def uninstall(self) -> None:
        self.target.helm("uninstall", NAME, "-n", NAMESPACE, "--wait", seconds=GONE_SECONDS)

    def wait_until_running(self, seconds: float) -> float:
        """Waits for Ray Serve's application to be RUNNING; returns the seconds it took.

        Fails with what the cluster says about itself when it does not get there.
        """
        begin = time.monotonic()
        self.wait("the application RUNNING", lambda: self.application() == "RUNNING", seconds)
        return time.monotonic() - begin

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

    def service(self) -> client.V1Service:
        return self.target.core.read_namespaced_service(f"{RAYSERVICE}-serve-svc", NAMESPACE)

    def metrics(self, component: str) -> str:
        """What Prometheus would read from the component's pod."""
        name = self.pod(component).metadata.name
        return self.target.core.connect_get_namespaced_pod_proxy_with_path(
            f"{name}:8080", NAMESPACE, "metrics"
        )

    def test(self) -> str:
        """`helm test`, with the output of its pod."""
        return self.target.helm("test", NAME, "-n", NAMESPACE, "--logs", seconds=400)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds:.0f} s\n{self.report()}")
            time.sleep(3)

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
        if self.target.helm("list", "-n", NAMESPACE, "-q").strip():
            self.uninstall()
        # A namespace that is deleted while pods end waits as long as their grace period.
        self.wait("the pods' end", lambda: not self.pods(), GONE_SECONDS)
        core = self.target.core
        core.delete_namespace(NAMESPACE)
        self.wait(
            "the namespace's end",
            lambda: NAMESPACE not in [n.metadata.name for n in core.list_namespace().items],
            GONE_SECONDS,
        )
