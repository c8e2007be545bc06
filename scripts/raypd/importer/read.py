"""A manifest file taken apart: the RayService, its one LLM application, and which group runs what."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from raypd.lint.subject import (
    SERVE_CONFIG,
    Engine,
    Group,
    Subject,
    mapping,
    sequence,
)
from raypd.render import Rendered, all_from_manifest
from raypd.report import UsageError

BUILT_IN = ("CPU", "GPU", "memory", "object_store_memory", "TPU")
CHART_LABEL = "ray-pd-llm"


@dataclass(frozen=True)
class Original:
    """`application` is the one that the chart can run, `engines` those of it by the chart's name of
    the role (prefill and decode, or engine), `homes` the groups that their pods are of; `guessed`
    when nothing in the manifest says which group is whose.
    """

    subject: Subject
    path: str
    application: dict[str, Any]
    engines: dict[str, Engine]
    homes: dict[str, Group]
    guessed: bool

    @property
    def name(self) -> str:
        return self.subject.rendered.name

    @property
    def namespace(self) -> str:
        return str(mapping(self.subject.rayservice.get("metadata")).get("namespace", "inference"))

    @property
    def arguments(self) -> dict[str, Any]:
        return mapping(self.application.get("args"))

    @property
    def disaggregated(self) -> bool:
        return "prefill" in self.engines

    @property
    def others(self) -> list[dict[str, Any]]:
        """The objects beside the RayService."""
        own = self.subject.rayservice
        return [m for m in self.subject.rendered.manifests if m is not own]

    @property
    def release(self) -> str:
        """The release that the chart's own render names; `llm` for all else."""
        labels = mapping(mapping(self.subject.rayservice.get("metadata")).get("labels"))
        if is_of_chart(self.subject.rayservice):
            return str(labels.get("app.kubernetes.io/instance") or "llm")
        return "llm"

    @cached_property
    def shared(self) -> bool:
        """Both roles run on pods of one group."""
        groups = {group.path for group in self.homes.values()}
        return len(groups) < len(self.homes)

    @property
    def idle(self) -> list[Group]:
        """Worker groups that no engine is known to run on."""
        used = {group.path for group in self.homes.values()}
        return [group for group in self.subject.workers if group.path not in used]

    def variables(self, block: str, group: Group) -> dict[str, tuple[str, Any]]:
        """name -> (path, value or valueFrom) of what the Ray container of a group, under the chart's
        name of it, is given; what runtime_env gives to its engines wins."""
        found = {
            name: (f"{group.env_path}[{name}]", entry.get("valueFrom") or entry.get("value"))
            for name, entry in group.env.items()
        }
        return found | (self.runtime_variables(block) if block in self.engines else {})

    def runtime_variables(self, role: str) -> dict[str, tuple[str, Any]]:
        """name -> (path, value) of what runtime_env gives this role's engines."""
        engine = self.engines[role]
        holders = [
            (self.path, self.application),
            (engine.path, engine.config),
            (
                f"{engine.path}.deployment_config.ray_actor_options",
                mapping(engine.deployment.get("ray_actor_options")),
            ),
        ]
        return {
            str(name): (f"{path}.runtime_env.env_vars.{name}", value)
            for path, holder in holders
            for name, value in mapping(mapping(holder.get("runtime_env")).get("env_vars")).items()
        }


def is_of_chart(manifest: dict[str, Any]) -> bool:
    """The chart itself made this object."""
    labels = mapping(mapping(manifest.get("metadata")).get("labels"))
    return (
        labels.get("app.kubernetes.io/part-of") == CHART_LABEL
        and labels.get("app.kubernetes.io/managed-by") == "Helm"
    )


def read(file: str) -> Original:
    """The original in a file, or on standard input for "-". Raises UsageError for what holds none."""
    origin = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{origin} cannot be read: {error}") from error
    found = all_from_manifest(text, origin)
    if len(found) > 1:
        raise UsageError(
            f"{origin} holds {len(found)} RayServices ({', '.join(one.name for one in found)}), and "
            "a release of the chart is one. Give a file for each."
        )
    return original(found[0], origin)


def original(rendered: Rendered, origin: str) -> Original:
    """The parts of one RayService. Raises UsageError when no application of it can be read."""
    subject = Subject.of(rendered)
    for path, application in subject.applications:
        engines = {
            engine.group: engine
            for engine in reversed(subject.engines)  # of several models the first stays
            if engine.path.startswith(f"{path}.")
        }
        if "prefill" in engines and "decode" in engines:
            engines = {role: engines[role] for role in ("prefill", "decode")}
        elif "engine" in engines:
            engines = {"engine": engines["engine"]}
        else:
            continue
        homes, guessed = _homes(subject, engines)
        return Original(subject, path, application, engines, homes, guessed)
    raise UsageError(f"{origin}: {_why_no_engine(subject)}")


def _why_no_engine(subject: Subject) -> str:
    for path, application in subject.applications:
        arguments = mapping(application.get("args"))
        for key in ("prefill_config", "decode_config", "llm_configs"):
            for value in [arguments.get(key), *sequence(arguments.get(key))]:
                if isinstance(value, str):
                    return (
                        f"{path}.args.{key} names the file `{value}`, which lies in the image. "
                        f"Write what is in that file in its place."
                    )
    kinds = ", ".join(
        str(application.get("import_path")) for _, application in subject.applications
    )
    return (
        f"{SERVE_CONFIG} holds no model that the chart could serve (import paths: {kinds or 'none'}). "
        "The chart runs ray.serve.llm:build_pd_openai_app with prefill_config and decode_config, or "
        "ray.serve.llm:build_openai_app with llm_configs."
    )


def custom(engine: Engine) -> list[str]:
    """Custom resources that a replica asks for; Ray announces accelerator_type:X by itself."""
    return sorted(
        {
            name
            for bundle in engine.bundles
            for name, wanted in bundle.items()
            if wanted and name not in BUILT_IN and not name.startswith("accelerator_type:")
        }
    )


def _homes(subject: Subject, engines: dict[str, Engine]) -> tuple[dict[str, Group], bool]:
    """The group of each role: by the custom resource that it asks for, by its name, or the only one
    there is. What is left is taken in the order in which it is written, as a guess.
    """
    groups = subject.workers or [subject.head]
    found: dict[str, Group] = {}
    for role, engine in engines.items():
        names = custom(engine)
        offering = [g for g in groups if names and all(n in g.custom_resources for n in names)]
        named = [g for g in groups if role in g.name.lower()]
        for choice in (offering, named, groups):
            if len(choice) == 1:
                found[role] = choice[0]
                break
    devices = [g for g in groups if g.gpus] or groups
    missing = [role for role in engines if role not in found]
    for role in missing:
        free = [g for g in devices if g not in found.values()]
        found[role] = (free or devices)[0]
    guessed = len(missing) == len(engines) and len(devices) > 1
    return {role: found[role] for role in engines}, guessed
