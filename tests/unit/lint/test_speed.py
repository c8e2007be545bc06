"""What is known to be slow is told where prefill and decode may meet on one host, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.lint.speed import transport
from unit.lint.sample import ABSENT, Sample
from unit.lint.test_fabric import over_ucx

ZCOPY = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"


def told(sample: Sample) -> list[str]:
    return [f.path.rpartition(".")[2] for f in sample.findings("RPD380")]


def read_by_ipc(sample: Sample, value: object = "on") -> Sample:
    for group in ("group0", "group1"):
        sample.env(group, ZCOPY, value)
    return sample


def test_ucx_without_the_variable_is_told_in_both_roles() -> None:
    found = over_ucx(Sample()).findings("RPD380")
    assert [f.path for f in found] == [
        f"spec.rayClusterConfig.workerGroupSpecs[{i}].template.spec.containers[0].env.{ZCOPY}"
        for i in (0, 1)
    ]
    assert "0.553 GB/s where CUDA IPC gave 47.8" in found[0].message
    assert found[0].severity == "warning"


@pytest.mark.parametrize("value", ["on", "y", "1"])
def test_with_the_variable_nothing_is_told(value: str) -> None:
    assert told(read_by_ipc(over_ucx(Sample()), value)) == []


@pytest.mark.parametrize("value", ["off", "auto", "0", ""])
def test_a_value_that_leaves_it_off_is_told(value: str) -> None:
    assert told(read_by_ipc(over_ucx(Sample()), value)) == [ZCOPY, ZCOPY]


@pytest.mark.parametrize("value", ["tcp", "tcp,cuda_copy", "^cuda_ipc", "^cuda"])
def test_transports_without_cuda_ipc_are_told(value: str) -> None:
    sample = read_by_ipc(over_ucx(Sample())).env("group1", "UCX_TLS", value)
    assert told(sample) == ["UCX_TLS"]


@pytest.mark.parametrize(
    "value", ["all", "tcp,cuda_copy,cuda_ipc", "cuda,tcp", "^rc", "tcp,cuda:x"]
)
def test_transports_with_cuda_ipc_are_left_alone(value: str) -> None:
    assert told(read_by_ipc(over_ucx(Sample())).env("group1", "UCX_TLS", value)) == []


def test_libfabric_is_left_alone() -> None:
    assert told(Sample()) == []


def test_engines_without_gpus_are_left_alone() -> None:
    sample = over_ucx(Sample())
    for role, group in (("prefill", "group0"), ("decode", "group1")):
        sample.put(f"{role}:placement_group_config|bundles", [{"CPU": 1, role: 1}])
        for kind in ("limits", "requests"):
            sample.put(f"{group}:template|spec|containers|0|resources|{kind}", {"memory": "96Gi"})
    assert told(sample) == []


def test_engines_that_cannot_meet_are_left_alone() -> None:
    apart = over_ucx(Sample()).put(
        "group0:template|spec|affinity|podAntiAffinity",
        {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]},
    )
    assert told(apart) == []
    other_nodes = over_ucx(Sample())
    for group in ("group0", "group1"):
        other_nodes.put(f"{group}:template|spec|nodeSelector", {"role": group})
    assert told(other_nodes) == []


def test_a_variable_from_a_secret_is_not_guessed_at() -> None:
    sample = over_ucx(Sample())
    for i in (0, 1):
        sample.put(
            f"group{i}:template|spec|containers|0|env|2",
            {"name": ZCOPY, "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}},
        )
    assert told(sample) == []


def test_small_blocks_of_a_dense_model_are_told_on_both_roles() -> None:
    sample = over_ucx(Sample())
    for role in ("prefill", "decode"):
        sample.put(f"{role}:engine_kwargs|block_size", ABSENT)
    found = sample.findings("RPD381")
    assert [f.path.rpartition(".engine_kwargs.")[2] for f in found] == ["block_size"] * 2
    assert "16 tokens, as vLLM takes if told nothing" in found[0].message
    assert "21 GB/s where blocks of 128 gave 70" in found[0].message
    for role in ("prefill", "decode"):
        sample.put(f"{role}:engine_kwargs|block_size", 16)
    assert [f.message.partition(":")[0] for f in sample.findings("RPD381")] == [
        "Blocks of 16 tokens"
    ] * 2


@pytest.mark.parametrize(
    ("tokens", "model"), [(128, {"kind": "dense"}), (16, {"kind": "hybrid"}), (16, None)]
)
def test_large_blocks_and_other_models_are_left_alone(tokens: int, model: Any) -> None:
    sample = over_ucx(Sample())
    sample.model = model
    for role in ("prefill", "decode"):
        sample.put(f"{role}:engine_kwargs|block_size", tokens)
    assert sample.findings("RPD381") == []


def test_what_the_chart_sets_is_faster_than_without_at_every_size() -> None:
    for kind, best in transport()["blockSize"].items():
        assert best["source"], kind
        assert max(best["measured"], key=best["measured"].__getitem__) == best["tokens"]
    for name, path in transport()["paths"].items():
        assert path["source"], name
        if "without" in path:
            assert path["measured"].keys() == path["without"].keys()
            assert all(path["measured"][size] > slow for size, slow in path["without"].items())
        if "floor" in path:
            assert path["floor"] < min(path["measured"].values())
