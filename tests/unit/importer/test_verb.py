"""Render -> import -> render gives the same RayService; and what `raypd import` says and writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from raypd import yaml_text
from raypd.importer.read import original
from raypd.importer.verb import Imported, imported_from, run
from raypd.render import Rendered, ValueArguments, all_from_manifest, default_chart, render
from raypd.report import UsageError

MANIFESTS = Path(__file__).parents[1] / "lint" / "manifests"
VALUES = sorted((Path(__file__).parents[3] / "values").glob("*.yaml"))


def rendered(values: dict[str, Any] | Path, folder: Path) -> Rendered:
    path = values if isinstance(values, Path) else folder / "given.yaml"
    if isinstance(values, dict):
        path.write_text(yaml.safe_dump(values))
    return render(default_chart(), ValueArguments([path]))


def rayservice(manifests: Rendered) -> str:
    """The text of the RayService as Helm printed it."""
    (text,) = (part for part in manifests.text.split("\n---\n") if "kind: RayService" in part)
    return text.strip()


def round_trip(values: dict[str, Any] | Path, folder: Path) -> tuple[Rendered, Rendered, Any]:
    first = rendered(values, folder)
    imported = imported_from(original(first, "the render"), default_chart(), "the render")
    path = folder / "imported.yaml"
    path.write_text(imported.text)
    return first, render(default_chart(), ValueArguments([path])), imported


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_a_shipped_values_file_comes_back_byte_for_byte(values: Path, tmp_path: Path) -> None:
    first, second, imported = round_trip(values, tmp_path)
    assert rayservice(second) == rayservice(first)
    assert imported.report.exit_code == 0


COMBINATIONS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "replicas": {"prefill": {"replicas": 3}, "decode": {"replicas": 2}},
    "engine arguments": {
        "model": {"engineArgs": {"enable_prefix_caching": False, "max_loras": 4}},
        "decode": {"engineArgs": {"enforce_eager": True}, "maxNumSeqs": 64},
        "prefill": {"maxNumBatchedTokens": 8192, "gpuMemoryUtilization": 0.8},
    },
    "tolerations and selectors": {
        "prefill": {
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "llm"}],
            "nodeSelector": {"role": None, "pool": "a"},
        },
        "head": {"nodeSelector": {"role": None}, "tolerations": [{"operator": "Exists"}]},
    },
    "TCP with a claim": {
        "transport": {"fabric": "tcp", "leaseSeconds": 90, "extraConfig": {"engine_ttl": 5.5}},
        "cache": {
            "type": "persistentVolumeClaim",
            "persistentVolumeClaim": {"size": "500Gi", "storageClassName": "fsx", "keep": False},
        },
        "prefill": {"instanceType": "g5.4xlarge", "resources": {"cpu": "8", "memory": "48Gi"}},
        "decode": {"instanceType": "", "tolerations": []},
    },
    "a claim that is there": {
        "cache": {
            "type": "persistentVolumeClaim",
            "mountPath": "/models/all",
            "persistentVolumeClaim": {"existingClaim": "weights"},
        },
    },
    "aggregated, scaled": {
        "topology": {"mode": "aggregated"},
        "engine": {
            "autoscaling": {"enabled": True, "maxReplicas": 5, "downscaleDelaySeconds": 60},
        },
        "cache": {"type": "emptyDir", "emptyDir": {"sizeLimit": ""}},
        "autoscaler": {"idleTimeoutSeconds": 90, "resources": {"cpu": "1"}},
    },
    "multinode": {
        "topology": {"mode": "multinode"},
        "model": {"source": "Qwen/Qwen2.5-14B-Instruct", "id": "team/q2.5"},
        "engine": {"parallelism": {"tensor": 2, "nodes": 2}, "efaInterfaces": 1},
    },
    "environment": {
        "model": {"env": {"NCCL_DEBUG": "INFO", "N": 1000000}},
        "prefill": {"env": {"UCX_LOG_LEVEL": "warn"}},
        "decode": {"env": {"KEY": {"valueFrom": {"secretKeyRef": {"name": "k", "key": "k"}}}}},
        "head": {"env": {"RAY_LOG_TO_STDERR": 1}},
    },
    "pods": {
        "prefill": {
            "podLabels": {"team": "ml"},
            "podAnnotations": {"karpenter.sh/do-not-disrupt": "true"},
            "volumes": [{"name": "certs", "configMap": {"name": "certs"}}],
            "volumeMounts": [{"name": "certs", "mountPath": "/etc/certs", "readOnly": True}],
            "sidecars": [
                {
                    "name": "tail",
                    "image": "busybox:1",
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                }
            ],
            "initContainers": [{"name": "wait", "image": "busybox:1"}],
            "priorityClassName": "high",
            "terminationGracePeriodSeconds": 30,
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "db"}},
                        }
                    ]
                }
            },
            "sharedMemory": "20Gi",
            "objectStoreMemory": "5000Mi",
        },
    },
    "placement": {
        "placement": {"zone": "use1-az1", "rolesApart": False},
        "transport": {
            "efa": {"privileged": True, "hugepages2Mi": "5Gi"},
            "prewarm": False,
            "ports": {"decode": 24000},
        },
    },
    "around": {
        "fullnameOverride": "chat",
        "commonLabels": {"team": "ml"},
        "commonAnnotations": {"owner": "ml"},
        "endpoint": {
            "routePrefix": "/llm",
            "replicas": 2,
            "service": {"type": "NodePort", "annotations": {"a": "b"}},
        },
        "upgrade": {"strategy": "NewCluster", "spareCapacity": True, "deletionDelaySeconds": 5},
        "gcsFaultTolerance": {
            "enabled": True,
            "redisAddress": "redis:6379",
            "passwordSecret": {"name": "redis"},
        },
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": ["pull"], "pullPolicy": "Always"},
        "serviceAccount": {
            "name": "irsa",
            "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"},
        },
        "securityContext": {"runAsUser": 2000, "fsGroup": 3000, "readOnlyRootFilesystem": True},
        "huggingface": {"offline": True, "existingSecret": {"name": "hub", "key": "token"}},
        "model": {
            "revision": "main",
            "quantization": "fp8",
            "kvCacheDtype": "fp8",
            "blockSize": 32,
            "dtype": "auto",
        },
    },
    "engines that answer themselves": {
        "endpoint": {
            "directStreaming": True,
            "guard": {
                "inFlight": 32,
                "serverTiming": True,
                "keyLimits": {"alice": {"requestsPerMinute": 60}},
                "apiKeys": {"existingSecret": "keys"},
            },
        }
    },
    "engines that answer themselves, unguarded": {
        "endpoint": {"directStreaming": True, "guard": {"enabled": False}}
    },
    "blocks as vLLM has them": {"model": {"source": "Qwen/Qwen3-8B", "blockSize": 0}},
    "blocks as the chart has them": {"model": {"source": "Qwen/Qwen3-8B"}},
    "everything beside": {
        "ingress": {"enabled": True, "hosts": ["llm.example.com"], "className": "alb"},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
        "networkPolicy": {"enabled": True},
        "monitoring": {
            "podMonitor": {"enabled": True, "interval": "5s", "labels": {"release": "prom"}},
            "prometheusRule": {"enabled": True},
            "dashboards": {"enabled": True},
        },
        "cache": {"prefetch": {"enabled": True}},
        "decode": {"podDisruptionBudget": {"enabled": False}},
        "prefill": {"replicas": 2, "podDisruptionBudget": {"maxUnavailable": 1}},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "own"},
                "data": {"a": "b"},
            }
        ],
    },
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_values_of_many_kinds_come_back(name: str, tmp_path: Path) -> None:
    first, second, imported = round_trip(COMBINATIONS[name], tmp_path)
    assert rayservice(second) == rayservice(first)
    assert [f for f in imported.report.findings if f.severity == "error"] == []


def test_the_objects_beside_the_rayservice_come_back_too(tmp_path: Path) -> None:
    first, second, _ = round_trip(COMBINATIONS["everything beside"], tmp_path)
    assert second.manifests == first.manifests


@pytest.mark.parametrize("policy", [True, False])
def test_a_release_keeps_its_network_policy_or_none(policy: bool, tmp_path: Path) -> None:
    first = rendered({"networkPolicy": {"enabled": policy}}, tmp_path)
    imported = imported_from(original(first, "the render"), default_chart(), "the render")
    written = yaml.safe_load(imported.text)
    assert written.get("networkPolicy") == (None if policy else {"enabled": False})


def manifest(name: str) -> str:
    return (MANIFESTS / name).read_text()


def report_of(text: str) -> Imported:
    return imported_from(original(all_from_manifest(text, "it")[0], "it"), default_chart(), "it")


def test_a_group_for_both_roles_is_carried_over_and_told() -> None:
    imported = report_of(manifest("one-group.yaml"))
    codes = {finding.code for finding in imported.report.findings}
    assert codes >= {"RPD751", "RPD752", "RPD753", "RPD754", "RPD756", "RPD757", "RPD758", "RPD764"}
    assert codes >= {"RPD765", "RPD766", "RPD771"}
    values = imported.values
    assert values["model"]["engineArgs"] == {"enforce_eager": True}
    assert values["model"]["env"] == {"NCCL_DEBUG": "WARN"}
    assert values["cache"] == {"mountPath": "/models", "hostPath": {"subPath": "models"}}
    assert values["transport"] == {"efa": {"privileged": True}, "prewarm": False}
    assert values["prefill"] == values["decode"]
    assert "fabric" not in values["transport"]  # efa is the default
    errors = [finding for finding in imported.report.findings if finding.severity == "error"]
    assert [finding.code for finding in errors] == ["RPD754"]
    assert "kubectl -n serving create secret generic hf-token" in errors[0].remedy


def test_two_groups_and_what_stands_beside_them() -> None:
    imported = report_of(manifest("two-groups.yaml"))
    values, findings = imported.values, imported.report.findings
    assert (values["prefill"]["replicas"], "replicas" in values["decode"]) == (2, False)
    assert values["decode"]["autoscaling"] == {"enabled": True, "targetOngoingRequests": 2}
    assert values["huggingface"]["existingSecret"] == {"name": "hub", "key": "token"}
    assert values["cache"]["persistentVolumeClaim"] == {"existingClaim": "weights"}
    assert values["upgrade"] == {"strategy": "NewCluster", "spareCapacity": True}
    assert values["ingress"]["hosts"] == ["llm.example.com"]
    assert [one["kind"] for one in values["extraObjects"]] == ["Service"]
    assert values["prefill"]["resources"] == {"cpu": "7500m", "memory": "125000000Ki"}
    lost = {f.path.rpartition("[0].")[2] for f in findings if f.severity == "error"}
    assert lost >= {"runtime_env.pip", "template.spec.runtimeClassName"}
    outside = [f.path for f in findings if f.code == "RPD768"]
    assert outside == ["Namespace/llm-team", "Secret/hub", "PersistentVolumeClaim/weights"]
    assert {f.code for f in findings} >= {"RPD750", "RPD765", "RPD766", "RPD774"}


def test_an_aggregated_application_without_a_cache() -> None:
    imported = report_of(manifest("aggregated.json"))
    assert imported.values["topology"] == {"mode": "aggregated"}
    assert imported.values["model"]["env"] == {"OMP_NUM_THREADS": "4"}
    assert imported.values["cache"] == {"type": "emptyDir"}
    codes = {finding.code for finding in imported.report.findings}
    assert "RPD754" in codes
    assert not codes & {"RPD751", "RPD752", "RPD755"}


def test_a_manifest_that_is_right_is_carried_over_whole() -> None:
    report = report_of(manifest("right.yaml")).report
    assert report.exit_code == 0
    codes = {finding.code for finding in report.findings}
    assert codes == {"RPD752", "RPD757", "RPD758", "RPD764", "RPD771"}


RIGHT = manifest("right.yaml")
CHANGES = [
    # (code, severity, end of the path, (old text, new text))
    ("RPD750", "error", "hostNetwork", ("          spec:\n            containers:\n              - name: ray-worker", "          spec:\n            hostNetwork: true\n            containers:\n              - name: ray-worker")),
    ("RPD750", "error", "kv_transfer_config.kv_connector", ("kv_connector: NixlConnector", "kv_connector: MooncakeConnector")),
    ("RPD752", "error", "placement_group_config", ("{CPU: 1, GPU: 1, P: 0.5}", "{CPU: 1, GPU: 0.5, P: 0.5}")),
    ("RPD755", "error", "decode_config.engine_kwargs.max_model_len", ("              max_model_len: 4096\n              kv_transfer_config:\n                kv_connector: NixlConnector\n                kv_role: kv_consumer", "              max_model_len: 8192\n              kv_transfer_config:\n                kv_connector: NixlConnector\n                kv_role: kv_consumer")),
    ("RPD759", "error", "prefill.replicas", ("deployment_config: {num_replicas: 1}", "deployment_config: {num_replicas: many}")),
    ("RPD760", "warning", "env[HOME]", ("securityContext: {capabilities: {add: [IPC_LOCK]}}", "env: [{name: HOME, value: /root}]")),
    ("RPD761", "error", "max_model_len", ("model_source: Qwen/Qwen3.5-9B}", "model_source: own/model}")),
    ("RPD762", "warning", "model_source", ("model_source: Qwen/Qwen3.5-9B}", "model_source: own/model}")),
    ("RPD763", "warning", "workerGroupSpecs[0]", ("groupName: small\n        replicas: 1", "groupName: small\n        replicas: 3")),
    ("RPD767", "error", "applications[1]", ("  rayClusterConfig:", "      - {name: other, import_path: 'a:b', route_prefix: /other}\n  rayClusterConfig:")),
    ("RPD770", "error", "containers[0].image", ("registry.example.com/ray-llm:2.58.0\n              resources: {limits: {cpu: \"2\"", "registry.example.com/head:2.58.0\n              resources: {limits: {cpu: \"2\"")),
    ("RPD772", "warning", "workerGroupSpecs", ("P: 0.5}", "Z: 0.5}"), ("D: 0.5}", "Z: 0.5}")),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]} {change[2]}")
def test_what_cannot_be_carried_over_is_told(change: Any) -> None:
    code, severity, path, *swaps = change
    text = RIGHT
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    if code == "RPD761":
        text = text.replace("max_model_len: 4096", "max_num_seqs: 8")
    found = [f for f in report_of(text).report.findings if f.code == code]
    assert any(f.path.endswith(path) and f.severity == severity for f in found), found


def test_an_affinity_by_labels_of_kuberay_becomes_placement() -> None:
    whole = yaml_text.load(RIGHT)
    for group in whole["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        group["template"]["spec"]["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}}}
                ]
            }
        }  # fmt: skip
    imported = report_of(yaml.safe_dump(whole))
    assert {f.code for f in imported.report.findings} >= {"RPD773"}
    assert "affinity" not in imported.values["prefill"]
    assert "placement" not in imported.values  # rolesApart is the default


def test_values_that_the_chart_refuses_are_written_with_its_reasons() -> None:
    text = manifest("one-group.yaml").replace("memory: 100Gi", "memory: 200Gi")
    imported = report_of(text)
    assert imported.report.exit_code == 1
    assert "RPD142" in {finding.code for finding in imported.report.findings}
    assert imported.values["prefill"]["resources"]["memory"] == "200Gi"
    assert imported.values["model"]["engineArgs"] == {"enforce_eager": True}
    assert imported.values["model"]["env"] == {"NCCL_DEBUG": "WARN"}
    assert imported.values["fullnameOverride"] == "qwen-pd"
    assert any("refuses" in line for line in imported.report.not_checked)


def test_a_secret_in_a_variable_is_left_out() -> None:
    text = RIGHT.replace(
        "securityContext: {capabilities: {add: [IPC_LOCK]}}",
        "env: [{name: WANDB_API_KEY, value: 0a1b2c3d}]",
    )
    imported = report_of(text)
    assert "0a1b2c3d" not in imported.text + repr(imported.report)
    assert [f.code for f in imported.report.findings if f.severity == "error"] == ["RPD754"] * 2


def test_the_file_is_written_once_and_not_over_another(tmp_path: Path) -> None:
    target = tmp_path / "values.yaml"
    source = str(MANIFESTS / "right.yaml")
    assert run(source, target, False, None, "human") == 0
    written = target.read_text()
    assert f"-f {target}" in written
    with pytest.raises(UsageError, match="--force"):
        run(source, target, False, None, "human")
    assert run(source, target, True, None, "human") == 0
    assert target.read_text() == written


def test_standard_input_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(RIGHT))
    assert run("-", None, False, None, "json") == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["values"]["fullnameOverride"] == "by-hand"
    assert {"findings", "checked", "not_checked"} <= set(parsed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (manifest("by-file.yaml"), "/configs/prefill.yaml"),
        (RIGHT.replace("ray.serve.llm:build_pd_openai_app", "mine:app").replace("_config:\n", "_x:\n"), "mine:app"),
        (f"{RIGHT}---\n{RIGHT.replace('by-hand', 'again')}", "by-hand, again"),
        ("kind: RayCluster", "RayCluster"),
        ("", "nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        run(str(path), None, False, None, "human")
