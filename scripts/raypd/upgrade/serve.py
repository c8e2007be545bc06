"""What Ray Serve does with another serve config (Ray 2.58).

It hashes some of an application (serve/_private/deploy_utils.py, get_app_code_version). When the hash
differs it builds the application anew, and all replicas of it are replaced; when it is the same it lays
the `deployments` over what runs (application_state.py, override_deployment_info), where some settings
replace the replicas of that one deployment (version.py, requires_actor_restart) and a setting that is
taken out stays as it was. What is in OF_START is read when Serve starts, and never again
(serve/_private/api.py and the dashboard's serve_head.py: "The new HTTP config is ignored").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from raypd.lint.subject import mapping, sequence
from raypd.upgrade.difference import Difference, equal, is_empty, literal_differences

Json = dict[str, Any]
Fate = Literal["new", "gone", "rebuilt", "restarted", "adjusted", "same"]

CODE = ("import_path", "runtime_env", "args", "autoscaling_policy")
_CODE_OF_DEPLOYMENT = {"request_router_config": dict, "deployment_actors": list}
RESTARTS = (
    *("ray_actor_options", "max_replicas_per_node", "gang_scheduling_config"),
    *("placement_group_bundles", "placement_group_strategy"),
    *("placement_group_bundle_label_selector", "placement_group_fallback_strategy"),
)
OF_START = ("http_options", "proxy_location", "grpc_options", "controller_options")


@dataclass(frozen=True)
class Application:
    """What happens to one application. "rebuilt": all its replicas are replaced in place; "restarted":
    those of some of its `deployments`; "adjusted": it gets its new settings in place.

    `changes` are what differs, by paths below the application. `ignored` are those among them that have
    no effect until it is built anew.
    """

    name: str
    fate: Fate
    changes: list[Difference] = field(default_factory=list)
    ignored: list[Difference] = field(default_factory=list)
    deployments: list[str] = field(default_factory=list)


def compare(before: Json, after: Json) -> tuple[list[Application], list[Difference]]:
    """Two serve configs: what happens to each application that differs, and what only a new start of
    Serve takes up."""
    old, new = _by_name(before), _by_name(after)
    found = [_application(name, old.get(name), new.get(name)) for name in {**new, **old}]
    of_start = [
        Difference(f"{key}.{one.path}".rstrip("."), one.before, one.after)
        for key in OF_START
        for one in literal_differences(before.get(key), after.get(key))
        if not (is_empty(one.before) and is_empty(one.after))
    ]
    return [application for application in found if application.fate != "same"], of_start


def _application(name: str, old: Json | None, new: Json | None) -> Application:
    if old is None or new is None:
        return Application(name, "new" if old is None else "gone")
    changes = literal_differences(_by_deployment(old), _by_deployment(new))
    if not equal(_code(old), _code(new)):
        # A setting that is null and one that is not there hash differently, and look the same here.
        return Application(
            name, "rebuilt", changes or [Difference("args", old.get("args"), new.get("args"))]
        )
    ignored = list(_taken_out(old, new))
    restarted = [
        entry
        for entry, settings in _deployments(new).items()
        if any(
            key in settings and not equal(settings[key], _deployments(old).get(entry, {}).get(key))
            for key in RESTARTS
        )
    ]
    if restarted:
        return Application(name, "restarted", changes, ignored, restarted)
    fate: Fate = "adjusted" if changes else "same"
    return Application(name, fate, changes, ignored)


def _code(application: Json) -> Json:
    """What Ray hashes of an application."""
    code: Json = {key: application.get(key) or {} for key in CODE}
    entries = list(map(mapping, sequence(application.get("deployments"))))
    for key, kind in _CODE_OF_DEPLOYMENT.items():
        code[key] = [entry[key] for entry in entries if isinstance(entry.get(key), kind)]
    code["policies"] = [
        entry["autoscaling_config"].get("policy")
        for entry in entries
        if isinstance(entry.get("autoscaling_config"), dict)
    ]
    return code


def _taken_out(old: Json, new: Json) -> Iterator[Difference]:
    """Settings of deployments that are not there any more, which Serve goes on with."""
    for name, settings in _deployments(old).items():
        kept = _deployments(new).get(name)
        if kept is None:
            yield Difference(f"deployments.{name}", settings, None)
            continue
        for key, value in settings.items():
            if key not in kept:
                yield Difference(f"deployments.{name}.{key}", value, None)


def _by_deployment(application: Json) -> Json:
    """With the deployments by their names, and with Serve's defaults (serve/schema.py)."""
    filled = {key: application.get(key) or {} for key in ("runtime_env", "args")}
    return {**application, **filled, "deployments": _deployments(application)}


def _deployments(application: Json) -> dict[str, Json]:
    entries = map(mapping, sequence(application.get("deployments")))
    return {str(entry.get("name")): entry for entry in entries}


def _by_name(config: Json) -> dict[str, Json]:
    applications = map(mapping, sequence(config.get("applications")))
    # The name that Serve gives to one without (serve/_private/constants.py, SERVE_DEFAULT_APP_NAME).
    return {str(application.get("name", "default")): application for application in applications}
