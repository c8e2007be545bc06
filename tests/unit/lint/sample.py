"""A render that no check objects to, and the means to break it in one place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import yaml

from raypd.lint import check
from raypd.render import from_manifest
from raypd.report import Finding, Report

ABSENT = object()  # as a value: the key is taken out


def _llm_config(role: str) -> dict[str, Any]:
    return {
        "model_loading_config": {
            "model_id": "llama-3.1-8b",
            "model_source": "meta-llama/Llama-3.1-8B",
        },
        "engine_kwargs": {
            "max_model_len": 8192,
            "dtype": "bfloat16",
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "block_size": 16,
            "gpu_memory_utilization": 0.9,
            "kv_transfer_config": {
                "kv_connector": "NixlConnector",
                "kv_role": {"prefill": "kv_producer", "decode": "kv_consumer"}[role],
                "kv_load_failure_policy": "fail",
                "kv_connector_extra_config": {"backends": ["LIBFABRIC"], "kv_lease_duration": 30},
            },
        },
        "placement_group_config": {
            "bundles": [{"CPU": 1, "GPU": 1, role: 1}],
            "strategy": "STRICT_PACK",
        },
        "deployment_config": {"num_replicas": 2, "max_ongoing_requests": 64},
        "experimental_configs": {
            "NIXL_SIDE_CHANNEL_PORT_BASE": {"prefill": 20000, "decode": 22000}[role]
        },
    }


_DEVICES = {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}


def _group(role: str) -> dict[str, Any]:
    return {
        "groupName": role,
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "rayStartParams": {"resources": f'"{{\\"{role}\\": 1}}"'},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "ray-worker",
                        "image": "example.org/ray-llm:2.58.0-cu130",
                        "resources": {
                            "limits": {"memory": "96Gi", **_DEVICES},
                            "requests": {"cpu": "16", "memory": "96Gi", **_DEVICES},
                        },
                        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                        "env": [
                            {
                                "name": "HF_TOKEN",
                                "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                            },
                            {"name": "VLLM_CACHE_ROOT", "value": "/cache/vllm"},
                        ],
                    }
                ]
            }
        },
    }


_RAYSERVICE: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "llm", "namespace": "inference"},
    "spec": {
        "upgradeStrategy": {"type": "None"},
        "rayClusterConfig": {
            "rayVersion": "2.58.0",
            "headGroupSpec": {
                "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "ray-head",
                                "image": "example.org/ray-llm:2.58.0-cu130",
                                "resources": {"limits": {"cpu": "2", "memory": "8Gi"}},
                                "env": [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}],
                            }
                        ]
                    }
                },
            },
            "workerGroupSpecs": [_group("prefill"), _group("decode")],
        },
    },
}

_SERVE_CONFIG: dict[str, Any] = {
    "applications": [
        {
            "name": "llm",
            "route_prefix": "/",
            "import_path": "ray.serve.llm:build_pd_openai_app",
            "args": {
                "prefill_config": _llm_config("prefill"),
                "decode_config": _llm_config("decode"),
                "ingress_deployment_config": {"num_replicas": 1, "max_ongoing_requests": 256},
            },
        }
    ]
}


Break = Callable[["Sample"], object]


class Sample:
    """One RayService with its serve config, both as plain data; `values` and `model` as the checks
    get them.
    """

    def __init__(self) -> None:
        self.rayservice = copy.deepcopy(_RAYSERVICE)
        self.serve_config = copy.deepcopy(_SERVE_CONFIG)
        self.values: dict[str, Any] | None = None
        self.model: dict[str, Any] = {"kind": "dense"}
        self.others: list[dict[str, Any]] = []

    @property
    def cluster(self) -> dict[str, Any]:
        return self.rayservice["spec"]["rayClusterConfig"]

    @property
    def application(self) -> dict[str, Any]:
        return self.serve_config["applications"][0]

    @property
    def prefill(self) -> dict[str, Any]:
        return self.application["args"]["prefill_config"]

    @property
    def decode(self) -> dict[str, Any]:
        return self.application["args"]["decode_config"]

    def prefill_of_aggregated(self) -> dict[str, Any]:
        """The first LLMConfig of an application that does not tell roles apart."""
        return self.application["args"]["llm_configs"][0]

    def put(self, place: str, value: Any) -> Sample:
        """Writes `value` at "root:a|b|0|c"; root is rayservice, cluster, head, group0, group1,
        serve_config, application, args, prefill or decode. Mappings on the way are made.
        """
        root, _, path = place.partition(":")
        node: Any = {
            "rayservice": lambda: self.rayservice,
            "cluster": lambda: self.cluster,
            "head": lambda: self.cluster["headGroupSpec"],
            "group0": lambda: self.cluster["workerGroupSpecs"][0],
            "group1": lambda: self.cluster["workerGroupSpecs"][1],
            "serve_config": lambda: self.serve_config,
            "application": lambda: self.application,
            "args": lambda: self.application["args"],
            "prefill": lambda: self.prefill,
            "decode": lambda: self.decode,
        }[root]()
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("|"))
        for part in parents:
            node = node[part] if isinstance(node, list) else node.setdefault(part, {})
        if value is ABSENT:
            node.pop(last)
        elif isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value
        return self

    def env(self, group: str, name: str, value: Any) -> Sample:
        """Adds a variable to the Ray container of head, group0 or group1."""
        return self.put(
            f"{group}:template|spec|containers|0|env|{len(self._env(group))}",
            {"name": name, "value": value},
        )

    def _env(self, group: str) -> list[Any]:
        specs = {"head": self.cluster["headGroupSpec"]}
        specs |= {f"group{i}": spec for i, spec in enumerate(self.cluster["workerGroupSpecs"])}
        return specs[group]["template"]["spec"]["containers"][0]["env"]

    def report(self) -> Report:
        rayservice = copy.deepcopy(self.rayservice)
        rayservice["spec"]["serveConfigV2"] = yaml.safe_dump(self.serve_config)
        text = yaml.safe_dump_all([rayservice, *self.others])
        return check(from_manifest(text, "the sample"), self.values, self.model)

    def findings(self, code: str | None = None) -> list[Finding]:
        return [f for f in self.report().findings if code in (None, f.code)]
