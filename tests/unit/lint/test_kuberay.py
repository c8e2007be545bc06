"""Each of KubeRay's rules: kept by the sample, broken once, and kept again at its edge."""

from __future__ import annotations

import pytest

from raypd.lint import kuberay
from unit.lint.sample import ABSENT, Break, Sample

FT = {"redisAddress": "redis:6379"}


def autoscaling(sample: Sample, version: str | None = None) -> Sample:
    sample.put("cluster:enableInTreeAutoscaling", True)
    if version:
        sample.put("cluster:autoscalerOptions", {"version": version})
    return sample


def incremental(sample: Sample, **options: object) -> Sample:
    good = {
        "maxSurgePercent": 50,
        "stepSizePercent": 10,
        "intervalSeconds": 30,
        "gatewayClassName": "alb",
    }
    chosen = {key: value for key, value in (good | options).items() if value is not ABSENT}
    return autoscaling(sample).put(
        "rayservice:spec|upgradeStrategy",
        {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": chosen},
    )


BROKEN: list[tuple[str, str, Break]] = [
    ("RPD201", "metadata.name", lambda s: s.put("rayservice:metadata|name", "a" * 48)),
    ("RPD202", "metadata.name", lambda s: s.put("rayservice:metadata|name", "1llm")),
    (
        "RPD203",
        'metadata.annotations["ray.io/initializing-timeout"]',
        lambda s: s.put("rayservice:metadata|annotations", {kuberay.TIMEOUT: "30 minutes"}),
    ),
    (
        "RPD204",
        "spec.rayClusterConfig.authOptions.enableK8sTokenAuth",
        lambda s: s.put("cluster:authOptions", {"mode": "token", "enableK8sTokenAuth": True}),
    ),
    (
        "RPD205",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers",
        lambda s: s.put("head:template|spec|containers", []),
    ),
    (
        "RPD206",
        "spec.rayClusterConfig.workerGroupSpecs[0].resources",
        lambda s: s.put("group0:resources", {"CPU": "4"}),
    ),
    (
        "RPD207",
        "spec.rayClusterConfig.workerGroupSpecs[1].rayStartParams.labels",
        lambda s: s.put("group1:rayStartParams|labels", "a=b"),
    ),
    (
        "RPD208",
        "spec.rayClusterConfig.workerGroupSpecs[0].labels[-bad]",
        lambda s: s.put("group0:labels", {"-bad": "x"}),
    ),
    (
        "RPD209",
        "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers",
        lambda s: s.put("group0:template|spec|containers", []),
    ),
    (
        "RPD210",
        "spec.rayClusterConfig.workerGroupSpecs[0].maxReplicas",
        lambda s: s.put("group0:maxReplicas", ABSENT),
    ),
    (
        "RPD211",
        "spec.rayClusterConfig.workerGroupSpecs[0].minReplicas",
        lambda s: s.put("group0:minReplicas", -1),
    ),
    (
        "RPD212",
        "spec.rayClusterConfig.workerGroupSpecs[0].minReplicas",
        lambda s: s.put("group0:minReplicas", 3),
    ),
    (
        "RPD213",
        "spec.rayClusterConfig.workerGroupSpecs[0].idleTimeoutSeconds",
        lambda s: autoscaling(s, "v2").put("group0:idleTimeoutSeconds", -1),
    ),
    (
        "RPD214",
        "spec.rayClusterConfig.workerGroupSpecs[0].idleTimeoutSeconds",
        lambda s: autoscaling(s).put("group0:idleTimeoutSeconds", 60),
    ),
    (
        "RPD215",
        'metadata.annotations["ray.io/ft-enabled"]',
        lambda s: s.put("rayservice:metadata|annotations", {kuberay.FT_ENABLED: "true"}).put(
            "cluster:gcsFaultToleranceOptions", FT
        ),
    ),
    (
        "RPD216",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env[RAY_REDIS_ADDRESS]",
        lambda s: s.env("head", "RAY_REDIS_ADDRESS", "redis:6379"),
    ),
    (
        "RPD217",
        "spec.rayClusterConfig.headGroupSpec.rayStartParams.redis-password",
        lambda s: s.put("head:rayStartParams|redis-password", "$REDIS").put(
            "cluster:gcsFaultToleranceOptions", FT
        ),
    ),
    (
        "RPD218",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env[REDIS_PASSWORD]",
        lambda s: s.env("head", "REDIS_PASSWORD", "x").put("cluster:gcsFaultToleranceOptions", FT),
    ),
    (
        "RPD219",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env[RAY_REDIS_ADDRESS]",
        lambda s: s.env("head", "RAY_REDIS_ADDRESS", "redis:6379").put(
            "cluster:gcsFaultToleranceOptions", FT
        ),
    ),
    (
        "RPD220",
        'metadata.annotations["ray.io/external-storage-namespace"]',
        lambda s: s.put("rayservice:metadata|annotations", {kuberay.STORAGE_NAMESPACE: "x"}).put(
            "cluster:gcsFaultToleranceOptions", FT
        ),
    ),
    (
        "RPD221",
        "spec.rayClusterConfig.headGroupSpec.rayStartParams.redis-username",
        lambda s: s.put("head:rayStartParams|redis-username", "ray"),
    ),
    (
        "RPD222",
        "spec.rayClusterConfig.workerGroupSpecs[0].suspend",
        lambda s: autoscaling(s).put("group0:suspend", True),
    ),
    (
        "RPD223",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env"
        "[RAY_enable_autoscaler_v2]",
        lambda s: s.env("head", kuberay.AUTOSCALER_V2, "1"),
    ),
    (
        "RPD224",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env"
        "[RAY_enable_autoscaler_v2]",
        lambda s: autoscaling(s, "v2").env("head", kuberay.AUTOSCALER_V2, "1"),
    ),
    (
        "RPD225",
        "spec.rayClusterConfig.headGroupSpec.template.spec.restartPolicy",
        lambda s: autoscaling(s, "v2").put("head:template|spec|restartPolicy", "Always"),
    ),
    (
        "RPD226",
        "spec.rayClusterConfig.autoscalerOptions.idleTimeoutSeconds",
        lambda s: s.put("cluster:autoscalerOptions", {"idleTimeoutSeconds": -5}),
    ),
    (
        "RPD227",
        "spec.rayClusterConfig.rayVersion",
        lambda s: s.put("cluster:authOptions", {"mode": "token"}).put(
            "cluster:rayVersion", "2.51.0"
        ),
    ),
    (
        "RPD228",
        "spec.rayClusterConfig.upgradeStrategy",
        lambda s: s.put("cluster:upgradeStrategy", {"type": "None"}),
    ),
    (
        "RPD229",
        "spec.rayClusterConfig.headGroupSpec.headService.metadata.name",
        lambda s: s.put("head:headService", {"metadata": {"name": "mine"}}),
    ),
    (
        "RPD230",
        "spec.upgradeStrategy.type",
        lambda s: s.put("rayservice:spec|upgradeStrategy|type", "Recreate"),
    ),
    (
        "RPD231",
        "spec.rayClusterDeletionDelaySeconds",
        lambda s: s.put("rayservice:spec|rayClusterDeletionDelaySeconds", -1),
    ),
    (
        "RPD232",
        "spec.rayClusterConfig.enableInTreeAutoscaling",
        lambda s: incremental(s).put("cluster:enableInTreeAutoscaling", False),
    ),
    (
        "RPD233",
        "spec.upgradeStrategy.clusterUpgradeOptions",
        lambda s: incremental(s).put("rayservice:spec|upgradeStrategy|clusterUpgradeOptions", None),
    ),
    (
        "RPD234",
        "spec.upgradeStrategy.clusterUpgradeOptions.maxSurgePercent",
        lambda s: incremental(s, maxSurgePercent=101),
    ),
    (
        "RPD235",
        "spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent",
        lambda s: incremental(s, stepSizePercent=ABSENT),
    ),
    (
        "RPD236",
        "spec.upgradeStrategy.clusterUpgradeOptions.intervalSeconds",
        lambda s: incremental(s, intervalSeconds=0),
    ),
    (
        "RPD237",
        "spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName",
        lambda s: incremental(s, gatewayClassName=""),
    ),
    (
        "RPD238",
        "spec.rayClusterConfig.rayVersion",
        lambda s: s.put(
            "group0:template|spec|containers|0|image", "rayproject/ray-llm:2.57.1-py311"
        ),
    ),
    (
        "RPD239",
        "spec.rayClusterConfig.rayVersion",
        lambda s: s.put("cluster:rayVersion", "2.99.0"),
    ),
    (
        "RPD240",
        "spec.rayClusterConfig",
        lambda s: s.put("head:template|spec|containers|0|image", "example.org/other:latest"),
    ),
    (
        "RPD241",
        "spec.rayClusterConfig.headGroupSpec.rayStartParams.num-cpus",
        lambda s: s.put("head:rayStartParams|num-cpus", 0),
    ),
    (
        "RPD242",
        "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].env[OMP_NUM_THREADS]",
        lambda s: s.env("group0", "OMP_NUM_THREADS", 1),
    ),
    (
        "RPD243",
        "spec.rayClusterConfig.workerGroupSpecs[0].rayStartParams.resources",
        lambda s: s.put("group0:rayStartParams|resources", "prefill=1"),
    ),
    (
        "RPD244",
        "spec.serviceUnhealthySecondThreshold",
        lambda s: s.put("rayservice:spec|serviceUnhealthySecondThreshold", 900),
    ),
    (
        "RPD245",
        "spec.rayClusterConfig.workerGroupSpecs[1].groupName",
        lambda s: s.put("group1:groupName", "prefill"),
    ),
    (
        "RPD246",
        "spec.upgradeStrategy.type",
        lambda s: s.put("rayservice:spec|upgradeStrategy", ABSENT),
    ),
]


KEPT: list[tuple[str, Break]] = [
    ("RPD201", lambda s: s.put("rayservice:metadata|name", "a" * 47)),
    ("RPD203", lambda s: s.put("rayservice:metadata|annotations", {kuberay.TIMEOUT: "1h30m"})),
    ("RPD203", lambda s: s.put("rayservice:metadata|annotations", {kuberay.TIMEOUT: "1800"})),
    ("RPD208", lambda s: s.put("group0:labels", {"example.org/role": "prefill-1"})),
    ("RPD210", lambda s: autoscaling(s).put("group0:maxReplicas", ABSENT)),
    ("RPD214", lambda s: autoscaling(s, "v2").put("group0:idleTimeoutSeconds", 60)),
    ("RPD222", lambda s: s.put("group0:suspend", True)),
    ("RPD225", lambda s: autoscaling(s, "v2").put("head:template|spec|restartPolicy", "Never")),
    ("RPD227", lambda s: s.put("cluster:authOptions", {"mode": "token"})),
    ("RPD232", incremental),
    ("RPD233", incremental),
    ("RPD234", lambda s: incremental(s, maxSurgePercent=ABSENT)),
    ("RPD235", incremental),
    ("RPD236", incremental),
    ("RPD237", incremental),
    (
        "RPD238",
        lambda s: s.put("group0:template|spec|containers|0|image", "ray:serve-llm-cuda"),
    ),
    ("RPD246", lambda s: s.put("rayservice:spec|upgradeStrategy|type", "None")),
]


def test_the_sample_keeps_every_rule() -> None:
    assert Sample().report().findings == []


@pytest.mark.parametrize(("code", "path", "break_"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_found_at_its_place(code: str, path: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert path in [finding.path for finding in sample.findings(code)]


@pytest.mark.parametrize(("code", "keep"), KEPT)
def test_a_rule_is_kept_at_its_edge(code: str, keep: Break) -> None:
    sample = Sample()
    keep(sample)
    assert sample.findings(code) == []


@pytest.mark.parametrize("timeout", ["0s", "0", "-5m", "5", "10ms", "90 s", "soon"])
def test_timeouts_are_read_as_go_reads_them(timeout: str) -> None:
    sample = Sample()
    sample.put("rayservice:metadata|annotations", {kuberay.TIMEOUT: timeout})
    assert bool(sample.findings("RPD203")) == (timeout not in ("5", "10ms"))


@pytest.mark.parametrize("written", ['"{\\"a\\": 1}"', "'{\"a\": 1}'", '{"a": 1}', None])
def test_every_form_of_resources_that_kuberay_reads_is_accepted(written: str | None) -> None:
    sample = Sample()
    sample.put("group0:rayStartParams|resources", ABSENT if written is None else written)
    assert sample.findings("RPD243") == []


def test_new_cluster_is_the_charts_own_matter_when_values_are_known() -> None:
    sample = Sample()
    sample.put("rayservice:spec|upgradeStrategy|type", "NewCluster")
    assert sample.findings("RPD246")
    sample.values = {"upgrade": {"strategy": "NewCluster"}}
    assert sample.findings("RPD246") == []
