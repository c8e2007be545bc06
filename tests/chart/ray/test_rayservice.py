"""The RayService around the serve config."""

from __future__ import annotations


def test_upgrades_are_safe_unless_spare_nodes_are_declared(render):
    assert render.rayservice()["upgradeStrategy"] == {"type": "None"}
    values = {"upgrade": {"strategy": "NewCluster", "spareCapacity": True}}
    assert render.rayservice(values)["upgradeStrategy"] == {"type": "NewCluster"}


def test_ray_version_is_the_images(render):
    assert render.rayservice()["rayClusterConfig"]["rayVersion"] == "2.58.0"


def test_replicas_are_left_to_the_autoscaler_where_there_is_one(render):
    values = {"decode": {"autoscaling": {"enabled": True, "minReplicas": 1, "maxReplicas": 4}}}
    cluster = render.rayservice(values)["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    groups = {g["groupName"]: g for g in cluster["workerGroupSpecs"]}
    assert all("replicas" not in g for g in groups.values())
    assert (groups["decode"]["minReplicas"], groups["decode"]["maxReplicas"]) == (1, 4)
    assert (groups["prefill"]["minReplicas"], groups["prefill"]["maxReplicas"]) == (1, 1)
    pods = render.pods(values)
    assert pods["head"]["automountServiceAccountToken"] is True
    assert pods["decode"]["automountServiceAccountToken"] is False


def test_no_autoscaler_without_being_asked(render):
    cluster = render.rayservice()["rayClusterConfig"]
    assert "enableInTreeAutoscaling" not in cluster and "autoscalerOptions" not in cluster
    assert [g["replicas"] for g in cluster["workerGroupSpecs"]] == [1, 1]


def test_groups_are_written_as_kuberay_writes_them_back(render):
    """Else the list would be KubeRay's, and a server-side apply would stop at the conflict;
    tests/cluster/test_upgrade.py does one."""
    groups = render.rayservice()["rayClusterConfig"]["workerGroupSpecs"]
    assert [group["scaleStrategy"] for group in groups] == [{}, {}]


def test_gcs_fault_tolerance(render):
    values = {
        "gcsFaultTolerance": {
            "enabled": True,
            "redisAddress": "redis:6379",
            "passwordSecret": {"name": "redis", "key": "pw"},
            "externalStorageNamespace": "llm",
        }
    }
    assert render.rayservice(values)["rayClusterConfig"]["gcsFaultToleranceOptions"] == {
        "redisAddress": "redis:6379",
        "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "pw"}}},
        "externalStorageNamespace": "llm",
    }
    assert "gcsFaultToleranceOptions" not in render.rayservice()["rayClusterConfig"]


def test_every_ray_start_parameter_is_text(render):
    for group in render.groups().values():
        assert all(isinstance(v, str) for v in group["rayStartParams"].values())


def test_the_head_runs_nothing_but_ray(render):
    head = render.groups()["head"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    limits = head["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert set(limits) == {"memory"}


def test_service_of_the_endpoint(render):
    values = {"endpoint": {"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}}}
    service = render.rayservice(values)["serveService"]
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"] == {"name": "llm-ray-pd-llm-serve-svc", "annotations": {"a": "b"}}
    assert render.rayservice()["serveService"]["spec"]["type"] == "ClusterIP"
