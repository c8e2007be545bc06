"""What Ray Serve does with another config."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from raypd.upgrade.serve import compare

CONFIG: dict[str, Any] = {
    "http_options": {"port": 8000},
    "applications": [
        {
            "name": "llm",
            "import_path": "ray.serve.llm:build_pd_openai_app",
            "route_prefix": "/",
            "args": {"decode_config": {"engine_kwargs": {"max_model_len": 4096}}},
            "deployments": [
                {"name": "Decode:m", "num_replicas": 1, "max_ongoing_requests": 64},
                {"name": "Prefill:m", "autoscaling_config": {"min_replicas": 1}},
            ],
        }
    ],
}


def changed(place: str, value: Any) -> dict[str, Any]:
    """The config with a value written at "a|0|b"; None takes the key out."""
    config = copy.deepcopy(CONFIG)
    node: Any = config
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("|"))
    for part in parents:
        node = node[part]
    if value is None:
        node.pop(last)
    else:
        node[last] = value
    return config


@pytest.mark.parametrize(
    ("place", "value", "fate"),
    [
        ("applications|0|args|decode_config|engine_kwargs|max_model_len", 8192, "rebuilt"),
        ("applications|0|import_path", "other:app", "rebuilt"),
        ("applications|0|runtime_env", {"env_vars": {"A": "1"}}, "rebuilt"),
        ("applications|0|autoscaling_policy", {"policy_function": "a:b"}, "rebuilt"),
        ("applications|0|deployments|0|request_router_config", {"a": 1}, "rebuilt"),
        # A policy of its own, even none, is part of the hash where there was no autoscaling.
        ("applications|0|deployments|0|autoscaling_config", {"min_replicas": 1}, "rebuilt"),
        ("applications|0|deployments|0|ray_actor_options", {"num_cpus": 2}, "restarted"),
        ("applications|0|deployments|0|max_replicas_per_node", 1, "restarted"),
        ("applications|0|deployments|0|num_replicas", 2, "adjusted"),
        ("applications|0|deployments|0|max_ongoing_requests", 8, "adjusted"),
        ("applications|0|deployments|1|autoscaling_config|min_replicas", 2, "adjusted"),
        ("applications|0|deployments|0|graceful_shutdown_timeout_s", 60, "adjusted"),
        ("applications|0|route_prefix", "/llm", "adjusted"),
    ],
)
def test_what_a_change_of_an_application_leads_to(place: str, value: Any, fate: str) -> None:
    (found,), of_start = compare(CONFIG, changed(place, value))
    assert (found.name, found.fate, of_start) == ("llm", fate, [])
    assert found.changes
    assert found.deployments == (["Decode:m"] if fate == "restarted" else [])


def test_the_same_is_told_of_neither() -> None:
    assert compare(CONFIG, copy.deepcopy(CONFIG)) == ([], [])
    assert compare(CONFIG, changed("applications|0|runtime_env", {})) == compare(CONFIG, CONFIG)


def test_a_setting_that_is_taken_out_stays() -> None:
    (found,), _ = compare(
        CONFIG, changed("applications|0|deployments|0|max_ongoing_requests", None)
    )
    assert found.fate == "adjusted"
    assert [one.path for one in found.ignored] == ["deployments.Decode:m.max_ongoing_requests"]
    (found,), _ = compare(CONFIG, changed("applications|0|deployments|0", None))
    assert [one.path for one in found.ignored] == ["deployments.Decode:m"]


def test_what_is_built_anew_forgets_what_is_taken_out() -> None:
    other = changed("applications|0|deployments|0|max_ongoing_requests", None)
    other["applications"][0]["import_path"] = "other:app"
    (found,), _ = compare(CONFIG, other)
    assert (found.fate, found.ignored) == ("rebuilt", [])


@pytest.mark.parametrize("place", ["http_options|port", "proxy_location", "grpc_options"])
def test_what_only_a_start_of_serve_reads(place: str) -> None:
    applications, of_start = compare(CONFIG, changed(place, 9000))
    assert applications == []
    assert [one.path for one in of_start] == [place.replace("|", ".")]


def test_applications_come_and_go() -> None:
    other = changed("applications|0|name", "second")
    assert {(one.name, one.fate) for one in compare(CONFIG, other)[0]} == {
        ("second", "new"),
        ("llm", "gone"),
    }


def test_a_null_that_ray_hashes_is_found() -> None:
    (found,), _ = compare(CONFIG, changed("applications|0|args|decode_config|chat", None or 0))
    assert found.fate == "rebuilt"
    other = copy.deepcopy(CONFIG)
    other["applications"][0]["args"]["decode_config"]["chat"] = None
    (found,), _ = compare(CONFIG, other)
    assert (found.fate, [one.path for one in found.changes]) == ("rebuilt", ["args"])
