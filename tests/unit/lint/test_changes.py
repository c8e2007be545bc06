"""What changed between two sets of versions, and what of it a render uses."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.lint.changes import Change, Thing, changes, uses
from raypd.lint.contract import Contract, contract_for, known_versions
from raypd.render import Rendered, from_manifest
from unit.lint.sample import Sample
from unit.lint.test_any_shape import ANYTHING

OLD = contract_for("2.58.0")
NEW = contract_for("2.60.0")
APP = "spec.serveConfigV2.applications[0]"


def rendered(sample: Sample) -> Rendered:
    rayservice = copy.deepcopy(sample.rayservice)
    rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(sample.serve_config)
    return from_manifest(yaml.safe_dump(rayservice), "the sample")


def with_argument(schema: dict[str, Any] | None, required: bool = False) -> Contract:
    """The contract of 2.58.0 where vLLM's argument `dtype` is something else, or not there."""
    vllm = copy.deepcopy(OLD.vllm)
    arguments = vllm["$defs"]["EngineKwargs"]
    if schema is None:
        del arguments["properties"]["dtype"]
    else:
        arguments["properties"]["dtype"] = schema
    if required:
        arguments["required"] = ["dtype"]
    return dataclasses.replace(OLD, vllm=vllm)


def of_dtype(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[Change]:
    return changes(with_argument(old), with_argument(new))


WORD = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}
MAYBE = {"anyOf": [WHOLE, {"type": "null"}]}


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (WORD, WORD, []),
        (None, WORD, ["added"]),
        (WORD, None, ["removed"]),
        (WORD, WHOLE, ["retyped"]),
        (NUMBER, WHOLE, ["retyped"]),
        (WHOLE, NUMBER, ["widened"]),
        (MAYBE, WHOLE, ["retyped"]),
        (WHOLE, MAYBE, ["widened"]),
        (WORD, {}, []),  # no type is known on one side
        ({}, WORD, []),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, ["choices removed", "choices added"]),
        (WORD, {"enum": ["a"]}, ["retyped"]),
        ({"enum": ["a"]}, WORD, ["widened"]),
        ({"anyOf": [{"enum": ["a"]}, WORD]}, {"anyOf": [{"enum": ["b"]}, WORD]}, []),
        ({"const": 1}, {"const": 2}, ["choices removed", "choices added"]),
        (WORD, {**WORD, "deprecated": True}, ["deprecated"]),
        ({**WORD, "deprecated": True}, WORD, []),
    ],
)
def test_kinds_of_change(old: Any, new: Any, kinds: list[str]) -> None:
    found = of_dtype(old, new)
    assert [change.kind for change in found] == kinds
    assert {change.thing for change in found} <= {Thing("EngineKwargs", "dtype")}
    assert {change.part for change in found} <= {"vllm"}


def test_a_key_that_must_now_be_given() -> None:
    (change,) = changes(with_argument(WORD), with_argument(WORD, required=True))
    assert change.kind == "required"
    assert not change.concerns("bfloat16")


def test_words_and_choices() -> None:
    (change,) = of_dtype({"enum": ["a", None]}, {"enum": ["a", "b"]})[:1]
    assert (change.kind, change.old, change.new) == (
        "retyped",
        'one of `"a"`, `null`',
        'one of `"a"`, `"b"`',
    )
    removed, added = of_dtype({"enum": ["a", "b"]}, {"enum": ["b", "c"]})
    assert (removed.choices, added.choices) == (("a",), ("c",))


def test_a_choice_that_is_gone_concerns_who_made_it() -> None:
    removed, added = of_dtype({"enum": ["a", "b"]}, {"enum": ["b", "c"]})
    assert removed.concerns("a")
    assert removed.concerns(["b", "a"])
    assert not removed.concerns("b")
    assert not removed.concerns({"a": 1})
    assert not added.concerns("a")


def test_nothing_changes_from_a_version_to_itself() -> None:
    for version in known_versions():
        assert changes(contract_for(version), contract_for(version)) == []


@pytest.mark.parametrize(
    ("thing", "part", "kind"),
    [
        (Thing("EngineKwargs", "calculate_kv_scales"), "vllm", "removed"),
        (Thing("EngineKwargs", "sse_keep_alive_interval"), "vllm", "added"),
        (Thing("EngineKwargs", "moe_backend"), "vllm", "choices added"),
        (Thing("PDServingArgs", "proxy_cls_config"), "ray", "removed"),
        (Thing("DeploymentOptions", "max_surge_percent"), "ray", "added"),
        (Thing("kv_connector_extra_config", "enable_cross_layers_blocks"), "vllm", "removed"),
        (Thing("environment", "VLLM_TRITON_ATTN_USE_TD"), "vllm", "removed"),
        (Thing("environment", "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"), "vllm", "deprecated"),
    ],
)
def test_what_changed_from_2_58_to_2_60(thing: Thing, part: str, kind: str) -> None:
    (change,) = changes(OLD, NEW, [thing])
    assert (change.thing, change.part, change.kind) == (thing, part, kind)
    assert change in changes(OLD, NEW)


def test_backends_builders_and_mappings_inside_a_definition() -> None:
    found = changes(contract_for("2.56.0"), OLD)
    by_thing = {change.thing: change for change in found}
    backends = by_thing[Thing("kv_connector_extra_config", "backends")]
    assert (backends.part, backends.choices) == ("nixl", ("INFINIA",))
    assert by_thing[Thing("LLMConfig.experimental_configs", "pd_tokenize_once")].kind == "added"
    gone = [c for c in found if c.thing.key == "kv_connector" and c.kind == "choices removed"]
    assert [change.choices for change in gone] == [("P2pNcclConnector",)]


def test_the_way_back_is_the_way_forth_turned_round() -> None:
    turned = {"added": "removed", "removed": "added", "retyped": "widened", "widened": "retyped"}
    turned |= {"choices added": "choices removed", "choices removed": "choices added"}
    forth = {(c.thing, turned[c.kind]) for c in changes(OLD, NEW) if c.kind in turned}
    assert forth == {(c.thing, c.kind) for c in changes(NEW, OLD) if c.kind in turned}


def test_uses_are_found_at_every_level() -> None:
    sample = (
        Sample()
        .put("args:proxy_cls_config", {})
        .put("decode:deployment_config|autoscaling_config", {"max_replicas": 3})
        .put("application:runtime_env", {"env_vars": {"VLLM_USE_V1": "1"}})
    )
    found = uses(rendered(sample), NEW)
    decode = f"{APP}.args.decode_config"
    expected = {
        Thing("ServeDeploySchema", "applications"): "spec.serveConfigV2.applications",
        Thing("ServeApplicationSchema", "import_path"): f"{APP}.import_path",
        Thing("PDServingArgs", "proxy_cls_config"): f"{APP}.args.proxy_cls_config",
        Thing("AutoscalingConfig", "max_replicas"): (
            f"{decode}.deployment_config.autoscaling_config.max_replicas"
        ),
        Thing("LLMConfig.experimental_configs", "NIXL_SIDE_CHANNEL_PORT_BASE"): (
            f"{decode}.experimental_configs.NIXL_SIDE_CHANNEL_PORT_BASE"
        ),
        Thing("EngineKwargs", "block_size"): f"{decode}.engine_kwargs.block_size",
        Thing("KVTransferConfig", "kv_role"): f"{decode}.engine_kwargs.kv_transfer_config.kv_role",
        Thing("kv_connector_extra_config", "kv_lease_duration"): (
            f"{decode}.engine_kwargs.kv_transfer_config.kv_connector_extra_config.kv_lease_duration"
        ),
        Thing("environment", "VLLM_USE_V1"): f"{APP}.runtime_env.env_vars[VLLM_USE_V1]",
    }
    for thing, path in expected.items():
        assert path in [use.path for use in found[thing]]
    assert (f"{decode}.engine_kwargs.block_size", 16) in found[Thing("EngineKwargs", "block_size")]


def test_a_builder_is_known_by_either_form_of_its_import_path() -> None:
    sample = Sample().put("application:import_path", "ray.serve.llm.build_pd_openai_app")
    assert Thing("PDServingArgs", "decode_config") in uses(rendered(sample), OLD)


def test_what_a_render_does_not_hold_it_does_not_use() -> None:
    found = uses(rendered(Sample()), NEW)
    assert Thing("EngineKwargs", "calculate_kv_scales") not in found
    assert Thing("AutoscalingConfig", "max_replicas") not in found
    assert changes(OLD, NEW, found) != changes(OLD, NEW)


@settings(max_examples=min(60, settings.default.max_examples), deadline=None, derandomize=True)
@given(value=ANYTHING, place=st.sampled_from(["applications", "args", "prefill", "kwargs", "env"]))
def test_uses_of_any_shape(value: Any, place: str) -> None:
    sample = Sample()
    at = {
        "applications": "serve_config:applications",
        "args": "application:args",
        "prefill": "args:prefill_config",
        "kwargs": "prefill:engine_kwargs",
        "env": "application:runtime_env",
    }
    sample.put(at[place], value)
    rayservice = sample.rayservice
    for thing, where in uses(Rendered("", [], rayservice, sample.serve_config), OLD).items():
        assert isinstance(thing.key, str)
        assert all(use.path for use in where)
