"""Renders for another Ray than the default one: taken or not, and what is told of the difference."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
import yaml

from raypd.lint import check, versions
from raypd.lint.changes import Change, Thing
from raypd.lint.contract import contract_for, known_versions
from raypd.lint.subject import Subject
from raypd.render import ValueArguments, default_chart, from_manifest, render
from raypd.report import Finding
from unit.lint.sample import Sample

VALUES = sorted((Path(__file__).parents[3] / "values").glob("*.yaml"))
KWARGS = "spec.serveConfigV2.applications[0].args.prefill_config.engine_kwargs"
ENV = "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].env"


def sample_of(version: str) -> Sample:
    """The sample, which no check objects to, for another Ray."""
    sample = Sample().put("cluster:rayVersion", version)
    for group in ("head", "group0", "group1"):
        sample.put(f"{group}:template|spec|containers|0|image", f"example.org/ray-llm:{version}")
    return sample


def told(sample: Sample) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in sample.findings()]


@pytest.mark.parametrize("path", VALUES, ids=[path.stem for path in VALUES])
def test_every_version_of_the_matrix_takes_the_render_of_every_values_file(path: Path) -> None:
    for version in known_versions():
        of_vllm = contract_for(version).version_of("vllm")
        set_ = [f"image.rayVersion={version}", f"image.vllmVersion={of_vllm}"]
        made = render(default_chart(), ValueArguments([path], set_))
        report = check(made, None, {"kind": "dense"})
        assert report.findings == [], version


@pytest.mark.parametrize("version", known_versions())
def test_the_sample_is_taken_by_every_version(version: str) -> None:
    assert told(sample_of(version)) == []


def test_another_version_is_said_to_be_compared_and_to_be_unproven() -> None:
    report = sample_of("2.60.0").report()
    (compared,) = [line for line in report.checked if "differences" in line]
    assert "(Ray 2.58.0, vLLM 0.26.0 and NIXL 1.3.1)" in compared
    assert any("Ray 2.60.0, vLLM 0.29.0" in line for line in report.not_checked)


@pytest.mark.parametrize("version", ["2.58.0", "2.58.1"])
def test_of_the_default_and_its_like_nothing_is_compared(version: str) -> None:
    report = sample_of(version).report()
    assert not [line for line in report.checked if "differences" in line]
    assert not [line for line in report.not_checked if "default versions" in line]


@pytest.mark.parametrize(
    ("version", "place", "value", "code", "said"),
    [
        # Unknown keys and choices, in both directions of time.
        (
            "2.60.0",
            "prefill:engine_kwargs|calculate_kv_scales",
            True,
            "RPD301",
            "vLLM 0.27.0 (Ray 2.59.0) was the last to know it.",
        ),
        (
            "2.57.0",
            "prefill:engine_kwargs|sse_keep_alive_interval",
            5,
            "RPD301",
            "vLLM 0.29.0 (Ray 2.60.0) knows it.",
        ),
        (
            "2.56.0",
            "prefill:engine_kwargs|mm_ipc_gpu_memory_gb",
            1,
            "RPD301",
            "vLLM 0.25.1 (Ray 2.57.1) and later know it.",
        ),
        (
            "2.58.0",
            "prefill:engine_kwargs|kv_cache_dtype",
            "nvfp4_4over6",
            "RPD304",
            "vLLM 0.29.0 (Ray 2.60.0) knows it.",
        ),
        ("2.59.0", "args:proxy_cls_config", {}, "RPD301", "Ray 2.58.1 was the last to know it."),
        (
            "2.59.0",
            "decode:deployment_config|max_surge_percent",
            10,
            "RPD301",
            "Ray 2.60.0 knows it.",
        ),
        ("2.58.0", "serve_config:tracing_config", {}, "RPD301", "Ray 2.59.0 and later know it."),
        # The lists that no schema holds.
        (
            "2.60.0",
            "prefill:engine_kwargs|kv_transfer_config|kv_connector_extra_config"
            "|enable_cross_layers_blocks",
            True,
            "RPD340",
            "vLLM 0.27.0 (Ray 2.59.0) was the last to know it.",
        ),
        (
            "2.57.1",
            "prefill:engine_kwargs|kv_transfer_config|kv_connector",
            "P2pNcclConnector",
            "RPD332",
            "vLLM 0.22.0 (Ray 2.56.1) was the last to know it.",
        ),
        (
            "2.57.0",
            "prefill:engine_kwargs|kv_transfer_config|kv_connector_extra_config|backends",
            ["INFINIA"],
            "RPD339",
            "NIXL 1.3.1 (Ray 2.59.0) and later know it.",
        ),
    ],
)
def test_an_unknown_thing_comes_with_the_version_that_knows_it(
    version: str, place: str, value: object, code: str, said: str
) -> None:
    (finding,) = sample_of(version).put(place, value).findings(code)
    assert finding.message.endswith(f" {said}")


def test_a_key_that_no_version_knows_comes_without_history() -> None:
    (finding,) = sample_of("2.58.0").put("prefill:engine_kwargs|max_modl_len", 1).findings("RPD301")
    assert finding.message.endswith(f"is no key of `{KWARGS}`.")
    assert "`max_model_len`" in finding.remedy


def test_a_variable_that_is_gone_and_one_that_is_to_come() -> None:
    sample = sample_of("2.60.0").env("group0", "VLLM_TRITON_ATTN_USE_TD", "1")
    (finding,) = sample.findings("RPD326")
    assert finding.path == f"{ENV}[VLLM_TRITON_ATTN_USE_TD]"
    assert "vLLM 0.27.0 (Ray 2.59.0) was the last to know it." in finding.message
    assert sample_of("2.59.0").env("group0", "VLLM_TRITON_ATTN_USE_TD", "1").findings() == []


def test_the_proxy_is_deprecated_up_to_2_58_and_unknown_from_2_59_on() -> None:
    codes = {
        version: [f.code for f in sample_of(version).put("args:proxy_cls_config", {}).findings()]
        for version in ("2.56.0", "2.58.0", "2.59.0")
    }
    assert codes == {"2.56.0": ["RPD322"], "2.58.0": ["RPD322"], "2.59.0": ["RPD301"]}


def test_a_deprecated_variable_comes_with_the_argument_in_its_place() -> None:
    sample = sample_of("2.60.0").env("group0", "VLLM_MM_HASHER_ALGORITHM", "sha256")
    (finding,) = sample.findings()
    assert (finding.code, finding.path) == ("RPD308", f"{ENV}[VLLM_MM_HASHER_ALGORITHM]")
    assert "`engine_kwargs.mm_hasher_algorithm`" in finding.remedy
    assert "0.27" in finding.message


def test_a_variable_is_not_deprecated_before_its_time() -> None:
    assert sample_of("2.58.0").env("group0", "VLLM_MM_HASHER_ALGORITHM", "sha256").findings() == []


def _differences(monkeypatch, change: Change, told: tuple[str, ...] = ()) -> list[Finding]:
    monkeypatch.setattr(versions, "changes", lambda old, new: [change])
    sample = sample_of("2.60.0")
    rayservice = copy.deepcopy(sample.rayservice)
    rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(sample.serve_config)
    rendered = from_manifest(yaml.safe_dump(rayservice), "the sample")
    return versions.differences(Subject(rendered, contract_for("2.60.0")), told)[0]


BLOCK = Change("vllm", Thing("EngineKwargs", "block_size"), "retyped", "a whole number", "a string")


def test_a_used_thing_of_another_type_is_told_at_each_of_its_places(monkeypatch) -> None:
    found = _differences(monkeypatch, BLOCK)
    assert [(finding.code, finding.severity) for finding in found] == [("RPD307", "warning")] * 2
    assert found[0].path == f"{KWARGS}.block_size"
    assert found[0].message == "vLLM 0.29.0 takes a string, and vLLM 0.26.0 a whole number."


def test_what_was_told_already_is_not_told_again(monkeypatch) -> None:
    (finding,) = _differences(monkeypatch, BLOCK, (f"{KWARGS}.block_size",))
    assert "decode_config" in finding.path


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        ("removed", (), "vLLM 0.29.0 does not know it, and vLLM 0.26.0 does."),
        ("deprecated", (), "It is deprecated in vLLM 0.29.0, and was not in vLLM 0.26.0."),
        ("choices removed", (16,), "vLLM 0.29.0 does not take `16`, and vLLM 0.26.0 does."),
        ("choices removed", (32,), None),
        ("choices added", (16,), None),
        ("widened", (), None),
        ("required", (), None),
    ],
)
def test_what_is_told_of_a_kind(monkeypatch, kind, choices, message) -> None:
    found = _differences(monkeypatch, dataclasses.replace(BLOCK, kind=kind, choices=choices))
    assert {finding.message for finding in found} == ({message} if message else set())


def test_a_thing_that_the_render_does_not_use_is_not_told(monkeypatch) -> None:
    unused = dataclasses.replace(BLOCK, thing=Thing("EngineKwargs", "seed"))
    assert _differences(monkeypatch, unused) == []
