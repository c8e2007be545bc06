"""Who answers: the deployments of a render with their number of replicas, and what clients ask for."""

from __future__ import annotations

from typing import Any

from raypd.lint.subject import (
    INGRESS,
    Subject,
    deployment_name,
    ingress_options,
    mapping,
    whole,
)

Json = dict[str, Any]


def alone(old: Subject, new: Subject, application: str) -> list[str]:
    """Deployments of an application, by the names of the new render, of which there is one replica
    before or after: while it is replaced nobody stands in for it."""
    before = {role: count for role, (_, count) in _replicas(old, application).items()}
    return [
        name
        for role, (name, count) in _replicas(new, application).items()
        if min(count, before.get(role, count)) <= 1
    ]


def routes(subject: Subject) -> dict[str, str]:
    """Application -> the path under which it answers."""
    return {
        str(application.get("name")): str(application.get("route_prefix", "/"))
        for _, application in subject.applications
    }


def models(subject: Subject) -> set[str]:
    """The names under which clients ask for models."""
    loading = (mapping(engine.config.get("model_loading_config")) for engine in subject.engines)
    return {str(one["model_id"]) for one in loading if "model_id" in one}


def _replicas(subject: Subject, application: str) -> dict[str, tuple[str, int]]:
    """By role: the deployment's name, and its replicas at the start."""
    found: dict[str, tuple[str, int]] = {}
    for path, written in subject.applications:
        if str(written.get("name")) != application:
            continue
        for engine in subject.engines:
            if engine.path.startswith(f"{path}."):
                found[engine.role] = (
                    deployment_name(engine.role, engine.config),
                    engine.replicas[0],
                )
        found[INGRESS] = (INGRESS, whole(ingress_options(written).get("num_replicas"), 1))
    return found
