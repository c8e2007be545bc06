"""The programs of the cluster: Kubernetes, CoreDNS, kube-router and the KubeRay operator, built once
with Go."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from raypd.toolchain import go
from raypd.toolchain.process import run
from raypd.toolchain.programs import pins

KUBERNETES = tuple(pins()["kubernetes"]["packages"])


@cache
def kubernetes(program: str) -> Path:
    """kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or kube-proxy."""
    pin = pins()["kubernetes"]
    return go.build(
        pin["module"],
        f"cmd/{program}",
        pin["version"],
        stamp=pin["stamp"],
        replaces=_staging(pin["module"], pin["version"], pin["staging"]),
    )


@cache
def coredns() -> Path:
    return _plain("coredns")


@cache
def router() -> Path:
    return _plain("kube-router")


@cache
def operator() -> Path:
    """KubeRay's operator, statically linked: its image holds nothing else."""
    return _plain("kuberay")


def obtain_all() -> None:
    """Builds what is missing, so that nothing of a start waits for a compiler."""
    for program in KUBERNETES:
        kubernetes(program)
    coredns()
    router()
    operator()


def _plain(name: str) -> Path:
    pin = pins()[name]
    return go.build(pin["module"], pin["package"], pin["version"])


@cache
def _staging(module: str, version: str, published: str) -> dict[str, str]:
    """Kubernetes' own go.mod requires its staging modules as v0.0.0, which its workspace resolves;
    outside of it each has to be replaced by the version that is published under the same name."""
    answer = json.loads(
        run([go.go(), "mod", "edit", "-json", go.module(module, version) / "go.mod"])
    )
    return {
        entry["Path"]: f"{entry['Path']} {published}"
        for entry in answer["Require"]
        if entry["Version"] == "v0.0.0"
    }
