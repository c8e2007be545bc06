"""The PodMonitor finds every Ray pod and gives it the labels that alerts and dashboards use."""

from __future__ import annotations

import pytest

from chart.monitoring.objects import Monitored, in_mode, one
from chart.rendering import Manifest, Render


def pod_templates(manifests: list[Manifest]) -> list[Manifest]:
    (rayservice,) = (manifest for manifest in manifests if manifest["kind"] == "RayService")
    cluster = rayservice["spec"]["rayClusterConfig"]
    return [
        cluster["headGroupSpec"]["template"],
        *(group["template"] for group in cluster["workerGroupSpecs"]),
    ]


def test_nothing_is_made_unless_asked(render: Render) -> None:
    manifests = render.all()
    assert manifests
    for manifest in manifests:
        assert manifest["metadata"]["labels"]["app.kubernetes.io/component"] != "monitoring"


@pytest.mark.parametrize(
    ("mode", "roles"),
    [
        ("disaggregated", {"head", "prefill", "decode"}),
        ("aggregated", {"head", "engine"}),
        ("multinode", {"head", "engine"}),
    ],
)
def test_it_finds_every_ray_pod_by_label_and_port(
    monitored: Monitored, mode: str, roles: set[str]
) -> None:
    manifests = monitored(*in_mode(mode))
    spec = one(manifests, "PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    found = set()
    for template in pod_templates(manifests):
        labels = template["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        ports = [
            port for container in template["spec"]["containers"] for port in container["ports"]
        ]
        assert [p["containerPort"] for p in ports if p["name"] == endpoint["port"]] == [8080]
        found.add(labels["app.kubernetes.io/component"])
    assert found == roles


def test_it_does_not_depend_on_the_ray_cluster_name(monitored: Monitored) -> None:
    selector = one(monitored(), "PodMonitor")["spec"]["selector"]["matchLabels"]
    assert not [label for label in selector if label.startswith("ray.io/")]


def test_role_and_release_come_from_the_pods_labels(monitored: Monitored) -> None:
    (endpoint,) = one(monitored(), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert {rule["targetLabel"]: rule["sourceLabels"] for rule in endpoint["relabelings"]} == {
        "role": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
        "release": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"],
    }


def test_interval_and_labels_are_the_users(monitored: Monitored) -> None:
    monitor = one(
        monitored(
            "--set", "monitoring.podMonitor.interval=1m,monitoring.podMonitor.labels.team=llm"
        ),
        "PodMonitor",
    )
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "1m"
    assert monitor["metadata"]["labels"]["team"] == "llm"


def test_it_looks_in_its_own_namespace(monitored: Monitored) -> None:
    spec = one(monitored("--namespace", "elsewhere"), "PodMonitor")["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["elsewhere"]}
