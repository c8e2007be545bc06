"""Each cross-field rule, broken once and kept once, and all broken ones reported together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chart.rendering import CHART, Refused

CPU = {
    "runtime": {"device": "cpu"},
    "transport": {"fabric": "tcp"},
    "model": {"kind": "dense", "source": "Qwen/Qwen3-0.6B"},
    "cache": {"type": "emptyDir"},
}
AGGREGATED = {"topology": {"mode": "aggregated"}, "cache": {"type": "emptyDir"}}
MULTINODE = {"topology": {"mode": "multinode"}}
DENSE = {"source": "Qwen/Qwen3-8B"}
PVC = {"cache": {"type": "persistentVolumeClaim"}}


def role(name: str, **settings: Any) -> dict[str, Any]:
    return {name: settings}


# code, path that the message names, values that break the rule, values that keep it
RULES = [
    ("RPD110", "model.kind", {"model": {"source": "acme/new"}}, {"model": {"source": "acme/new", "kind": "dense"}}),
    ("RPD110", "model.kind", {"model": {"source": "acme/new"}}, {"model": {"source": "acme/new"}} | AGGREGATED),
    ("RPD111", "model.kind", {"model": {"kind": "dense"}}, {"model": {"kind": "hybrid"}}),
    ("RPD112", "model.maxModelLen", {"model": DENSE | {"maxModelLen": 40961}}, {"model": DENSE | {"maxModelLen": 40960}}),
    ("RPD113", "transport.bufferDevice", {"transport": {"bufferDevice": "cpu"}}, {"transport": {"bufferDevice": "cpu"}, "model": DENSE}),
    ("RPD114", "decode.engineArgs.disable_hybrid_kv_cache_manager", role("decode", engineArgs={"disable_hybrid_kv_cache_manager": True}), role("decode", engineArgs={"disable_hybrid_kv_cache_manager": False})),
    ("RPD115", "model.source", {"model": {"source": "/data/qwen", "kind": "dense"}}, {"model": {"source": "/cache/qwen", "kind": "dense"}}),
    ("RPD120", "model.env.VLLM_NIXL_SIDE_CHANNEL_PORT", {"model": {"env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": 5600}}}, {"model": {"env": {"VLLM_LOGGING_LEVEL": "DEBUG"}}}),
    ("RPD120", "prefill.env.TRITON_CACHE_DIR", role("prefill", env={"TRITON_CACHE_DIR": "/tmp/t"}), role("prefill", env={"OMP_NUM_THREADS": 4})),
    ("RPD120", "head.env.RAY_ADDRESS", role("head", env={"RAY_ADDRESS": "auto"}), role("head", env={"RAY_LOG_LEVEL": "debug"})),
    ("RPD120", "head.env.RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING", role("head", env={"RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": 1}), role("head", env={"RAY_SERVE_ENABLE_HA_PROXY": 1})),
    ("RPD121", "decode.engineArgs.dtype", role("decode", engineArgs={"dtype": "float16"}), role("decode", engineArgs={"enforce_eager": True})),
    ("RPD121", "model.engineArgs.kv_transfer_config", {"model": {"engineArgs": {"kv_transfer_config": {}}}}, {"model": {"engineArgs": {"seed": 1}}}),
    ("RPD122", "transport.extraConfig.backends", {"transport": {"extraConfig": {"backends": ["UCX"]}}}, {"transport": {"extraConfig": {"engine_ttl": 60}}}),
    ("RPD130", "transport.fabric", CPU | {"transport": {"fabric": "efa"}}, CPU),
    ("RPD131", "placement.sameZone", {"placement": {"sameZone": False}}, {"placement": {"sameZone": True}}),
    ("RPD132", "transport.bufferDevice", CPU | {"transport": {"fabric": "tcp", "bufferDevice": "cuda"}}, CPU),
    ("RPD133", "transport.ports", {"transport": {"ports": {"prefill": 20000, "decode": 20001}}} | role("prefill", replicas=2), {"transport": {"ports": {"prefill": 20000, "decode": 20002}}} | role("prefill", replicas=2)),
    ("RPD134", "transport.ports.prefill", {"transport": {"ports": {"prefill": 8265}}}, {"transport": {"ports": {"prefill": 8266}}}),
    ("RPD134", "transport.ports.decode", {"transport": {"ports": {"decode": 11500}}}, {"transport": {"ports": {"decode": 12000}}}),
    ("RPD135", "transport.ports.decode", {"transport": {"ports": {"decode": 65535}}} | role("decode", replicas=2), {"transport": {"ports": {"decode": 65535}}}),
    ("RPD136", "decode.parallelism.tensor", role("prefill", parallelism={"tensor": 2}, instanceType="") | role("decode", parallelism={"tensor": 3}, instanceType="") | {"model": {"source": "acme/new", "kind": "dense"}}, role("prefill", parallelism={"tensor": 2}, instanceType="")),
    ("RPD137", "prefill.parallelism.tensor", {"model": {"source": "Qwen/Qwen3-30B-A3B"}} | role("prefill", parallelism={"tensor": 8}, instanceType=""), {"model": {"source": "Qwen/Qwen3-30B-A3B"}} | role("prefill", parallelism={"tensor": 4}, instanceType="")),
    ("RPD140", "head.objectStoreMemory", role("head", objectStoreMemory="2Gi"), role("head", objectStoreMemory="1Gi")),
    ("RPD140", "decode.objectStoreMemory", role("decode", objectStoreMemory="16Gi"), role("decode", objectStoreMemory="15Gi")),
    ("RPD141", "head.sharedMemory", role("head", sharedMemory="5Gi"), role("head", sharedMemory="4Gi")),
    ("RPD142", "head.resources.memory", role("head", resources={"memory": "15Gi"}), role("head", resources={"memory": "14Gi"})),
    ("RPD142", "prefill.resources.memory", role("prefill", resources={"memory": "120Gi"}), role("prefill", resources={"memory": "115Gi"})),
    ("RPD143", "head.resources.cpu", role("head", resources={"cpu": "4"}), role("head", resources={"cpu": "3500m"})),
    ("RPD144", "prefill.resources.cpu", role("prefill", resources={"cpu": "1500m"}), role("prefill", resources={"cpu": "2"})),
    ("RPD145", "endpoint.replicas", {"endpoint": {"replicas": 29}}, {"endpoint": {"replicas": 28}}),
    ("RPD150", "engine.parallelism.nodes", MULTINODE, MULTINODE | role("engine", parallelism={"pipeline": 2, "nodes": 2})),
    ("RPD150", "decode.parallelism.nodes", role("decode", parallelism={"tensor": 2, "nodes": 2}), {}),
    ("RPD151", "engine.parallelism.nodes", MULTINODE | role("engine", parallelism={"pipeline": 3, "nodes": 2}, instanceType=""), MULTINODE | role("engine", parallelism={"pipeline": 4, "nodes": 2}, instanceType="")),
    ("RPD152", "prefill.parallelism.pipeline", role("prefill", parallelism={"pipeline": 2}, instanceType=""), role("prefill", parallelism={"tensor": 2}, instanceType="")),
    ("RPD153", "prefill.parallelism.tensor", role("prefill", parallelism={"tensor": 3}, instanceType=""), role("prefill", parallelism={"tensor": 4}, instanceType="")),
    ("RPD154", "prefill.parallelism", CPU | role("prefill", parallelism={"tensor": 2}, instanceType=""), CPU),
    ("RPD155", "decode.autoscaling.minReplicas", role("decode", autoscaling={"enabled": True, "minReplicas": 3, "maxReplicas": 2}), role("decode", autoscaling={"enabled": True, "minReplicas": 2, "maxReplicas": 2})),
    ("RPD160", "prefill.instanceType", role("prefill", instanceType="g6.7xlarge"), role("prefill", instanceType="g6.16xlarge")),
    ("RPD161", "decode.parallelism", role("decode", parallelism={"tensor": 2}), role("decode", parallelism={"tensor": 2}, instanceType="g6.12xlarge")),
    ("RPD162", "prefill.gpuMemoryUtilization", role("prefill", gpuMemoryUtilization=1), role("prefill", gpuMemoryUtilization=0.95)),
    ("RPD163", "prefill.instanceType", role("prefill", instanceType="g6.4xlarge", resources={"cpu": "8", "memory": "48Gi"}), role("prefill", instanceType="g6.8xlarge")),
    ("RPD164", "transport.efa.interfacesPerPod", {"transport": {"efa": {"interfacesPerPod": 2}}}, {"transport": {"efa": {"interfacesPerPod": 1}}}),
    ("RPD164", "decode.efaInterfaces", role("decode", efaInterfaces=2), role("decode", efaInterfaces=1)),
    ("RPD165", "decode.volumes", role("decode", volumes=[{"name": "cache", "emptyDir": {}}]), role("decode", volumes=[{"name": "mine", "emptyDir": {}}])),
    ("RPD170", "cache.mountPath", {"cache": {"mountPath": "/tmp"}}, {"cache": {"mountPath": "/tmp/cache"}}),
    ("RPD171", "cache.persistentVolumeClaim.accessModes", {"cache": {"type": "persistentVolumeClaim", "persistentVolumeClaim": {"accessModes": ["ReadWriteOnce"]}}}, PVC),
    ("RPD172", "cache.hostPath.setOwner", {"transport": {"fabric": "tcp"}}, {"transport": {"fabric": "tcp"}, "cache": {"hostPath": {"setOwner": True}}}),
    ("RPD173", "cache.prefetch.enabled", {"cache": {"type": "emptyDir", "prefetch": {"enabled": True}}}, {"cache": {"prefetch": {"enabled": True}}}),
    ("RPD174", "cache.prefetch.enabled", {"cache": {"prefetch": {"enabled": True}}, "model": {"source": "s3://bucket/qwen", "kind": "dense"}}, {"model": {"source": "s3://bucket/qwen", "kind": "dense"}}),
    ("RPD175", "cache.prefetch.enabled", {"cache": {"prefetch": {"enabled": True}}, "huggingface": {"offline": True}}, {"huggingface": {"offline": True}}),
    ("RPD180", "huggingface.token", {"huggingface": {"token": "hf_0123456789", "existingSecret": {"name": "hf-token"}}}, {"huggingface": {"token": "hf_0123456789"}}),
    ("RPD181", "image.tag", {"image": {"tag": ""}}, {"image": {"tag": "", "digest": "sha256:" + "0" * 64}}),
    ("RPD182", "image.vllmVersion", {"image": {"vllmVersion": "0.25.0"}}, {"image": {"rayVersion": "2.59.0", "vllmVersion": "0.27.0"}}),
    ("RPD183", "upgrade.strategy", {"upgrade": {"strategy": "NewCluster"}}, {"upgrade": {"strategy": "NewCluster", "spareCapacity": True}}),
    ("RPD184", "gcsFaultTolerance.redisAddress", {"gcsFaultTolerance": {"enabled": True}}, {"gcsFaultTolerance": {"enabled": True, "redisAddress": "redis:6379"}}),
    ("RPD185", "httpRoute.parentRefs", {"httpRoute": {"enabled": True}}, {"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}),
    ("RPD186", "extraObjects", {"extraObjects": [{"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": 8265}]}}]}, {"extraObjects": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": 8265}]}}]}),
    ("RPD187", "endpoint.maxOngoingRequests", {"endpoint": {"maxOngoingRequests": 319}}, {"endpoint": {"maxOngoingRequests": 320}}),
    ("RPD187", "endpoint.maxOngoingRequests", {"endpoint": {"guard": {"inFlight": 512}}}, {"endpoint": {"guard": {"inFlight": 512, "enabled": False}}}),
    ("RPD188", "model.env.PYTHONPATH", {"model": {"env": {"PYTHONPATH": "/code"}}}, {"model": {"env": {"PYTHONPATH": "/code:/opt/ray-pd-llm"}}}),
    ("RPD188", "head.env.PYTHONPATH", role("head", env={"PYTHONPATH": None}), role("head", env={"PYTHONPATH": "/opt/ray-pd-llm"})),
    ("RPD189", "endpoint.replicas", {"endpoint": {"directStreaming": True, "replicas": 2}}, {"endpoint": {"directStreaming": True, "replicas": 1}}),
    ("RPD189", "endpoint.directStreaming", {"endpoint": {"directStreaming": True}, "image": {"rayVersion": "2.57.0", "vllmVersion": "0.25.1"}}, {"endpoint": {"directStreaming": True}}),
    ("RPD189", "model.env.RAYLLM_VLLM_ENGINE_CLS", {"endpoint": {"directStreaming": True}, "model": {"env": {"RAYLLM_VLLM_ENGINE_CLS": "a:B"}}}, {"endpoint": {"directStreaming": True, "guard": {"enabled": False}}, "model": {"env": {"RAYLLM_VLLM_ENGINE_CLS": "a:B"}}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "path", "broken", "kept"), RULES, ids=[f"{r[0]}-{r[1]}" for r in RULES]
)
def test_rule(render, code, path, broken, kept):
    assert render.problems(broken) == {path: code}
    assert render.problems(kept) == {}


def test_every_rule_of_the_template_is_tested_here():
    template = (CHART / "templates" / "lib" / "_validate.tpl").read_text()
    assert set(re.findall(r"RPD1\d\d", template.split("*/}}", 1)[1])) == {rule[0] for rule in RULES}


def test_all_broken_rules_are_reported_at_once(render):
    values = {
        "model": {"source": "acme/new"},
        "upgrade": {"strategy": "NewCluster"},
        "head": {"objectStoreMemory": "4Gi"},
        "prefill": {"instanceType": "g6.4xlarge"},
    }
    with pytest.raises(Refused) as refused:
        render.text(values)
    lines = [line for line in str(refused.value).splitlines() if line.startswith("[RPD")]
    assert {line[1:7] for line in lines} == {
        "RPD110",
        "RPD183",
        "RPD140",
        "RPD163",
        "RPD142",
        "RPD143",
    }
    assert f"({len(lines)} problems)" in str(refused.value)
    assert all(". Instead: " in line for line in lines)


@pytest.mark.parametrize(
    "path", ["templates/ray/rayservice.yaml", "templates/access/serviceaccount.yaml"]
)
def test_nothing_renders_beside_a_broken_rule(render, path):
    """`--show-only` of a harmless file must not get around the rules."""
    with pytest.raises(Refused, match="RPD183"):
        render.text({"upgrade": {"strategy": "NewCluster"}}, "--show-only", path)
