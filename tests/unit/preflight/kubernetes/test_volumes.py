"""CSI drivers on the nodes that mount their volumes."""

from __future__ import annotations

from typing import Any

from raypd.preflight.kubernetes.volumes import driver_pods_on_nodes
from raypd.preflight.site import Site
from unit.preflight.kubernetes.good import Cluster, daemonset, daemonsets, on
from unit.preflight.simulated import codes, outcomes, seen, unseen, values

STORAGE = {"/apis/storage.k8s.io/v1/storageclasses/efs": {"provisioner": "efs.csi.aws.com"}}


def claimed(objects: dict[str, Any], storage_class: str = "efs") -> Site:
    claim = {"existingClaim": "", "storageClassName": storage_class}
    cache = {"type": "persistentVolumeClaim", "persistentVolumeClaim": claim}
    return on(Cluster(objects), values=values(cache=cache))


def test_a_driver_with_pods_on_the_engines_nodes() -> None:
    driver = daemonset("efs-csi-node", tolerations=[{"operator": "Exists"}])
    found = outcomes(driver_pods_on_nodes, claimed(STORAGE | daemonsets(driver)))
    assert (codes(found), seen(found)) == ([], "efs.csi.aws.com")


def test_a_driver_that_the_taint_keeps_off() -> None:
    found = outcomes(driver_pods_on_nodes, claimed(STORAGE | daemonsets(daemonset("efs-csi-node"))))
    assert codes(found) == ["RPD853", "RPD853"]
    assert "node gpu-a" in str(found)
    assert "aws.amazon.com/efa=true:NoSchedule" in str(found)


def test_a_driver_whose_daemonset_is_not_known_is_not_checked() -> None:
    assert "efs.csi.aws.com is not known" in unseen(
        outcomes(driver_pods_on_nodes, claimed(STORAGE))
    )


def test_a_class_that_is_not_known_yet_is_not_checked() -> None:
    assert "not known yet" in unseen(outcomes(driver_pods_on_nodes, claimed({}, "")))


def test_a_cache_on_the_nodes_needs_no_driver() -> None:
    assert seen(outcomes(driver_pods_on_nodes, on())) == "no claim is mounted"
