"""Claims that are not bound, and volumes that cannot be mounted."""

from __future__ import annotations

from raypd.live.diagnosis import diagnose
from unit.live.sample import event, parse, pending, pod, rayservice, serve, snapshot, waiting

UNBOUND = (
    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found, "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)


def only(**changes):
    base = {"rayservice": rayservice(ready=False), "serve": serve("DEPLOYING")}
    (finding,) = diagnose(snapshot(**{**base, **changes}))
    return finding


def claiming(words=UNBOUND):
    made = pending("decode", words)
    made["spec"]["volumes"] = parse("[{name: cache, persistentVolumeClaim: {claimName: cache}}]")
    return made


def claim(phase="Pending", storage_class="efs-sc"):
    return parse(f"""
        metadata: {{name: cache, namespace: inference, uid: uid-claim}}
        spec: {{accessModes: [ReadWriteMany], storageClassName: {storage_class}}}
        status: {{phase: {phase}}}
    """)


def of_claim(reason, message, **changes):
    made = claim(**changes)
    said = event("PersistentVolumeClaim", made, reason, message)
    return only(pods=[pod("head"), pod("prefill"), claiming()], claims=[made], events=[said])


def test_no_storage_class():
    finding = of_claim(
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
        storage_class="null",
    )
    assert finding.code == "RPD615"
    assert "cluster has no default one" in finding.message
    assert "cache.persistentVolumeClaim.storageClassName" in finding.remedy


def test_a_storage_class_that_is_not_there():
    finding = of_claim("ProvisioningFailed", 'storageclass.storage.k8s.io "efs-sc" not found')
    assert finding.code == "RPD615"
    assert "instead of efs-sc" in finding.remedy


def test_a_provisioner_that_fails():
    finding = of_claim(
        "ProvisioningFailed",
        "failed to provision volume with StorageClass: rpc error: code = InvalidArgument desc = "
        "Volume capabilities MULTI_NODE_MULTI_WRITER not supported",
    )
    assert "MULTI_NODE_MULTI_WRITER not supported" in finding.message


def test_a_driver_that_does_not_answer():
    finding = of_claim(
        "ExternalProvisioning",
        "Waiting for a volume to be created either by the external provisioner 'efs.csi.aws.com' "
        "or manually by the system administrator. If volume creation is delayed, please verify "
        "that the provisioner is running and correctly registered.",
    )
    assert "efs.csi.aws.com" in finding.message
    assert "aws-efs-csi-driver" in finding.remedy


def test_a_claim_that_is_not_there():
    words = 'persistentvolumeclaim "cache" not found'
    finding = only(pods=[pod("head"), pod("prefill"), claiming(words)])
    assert finding.code == "RPD615"
    assert "existingClaim" in finding.remedy


def test_claims_that_one_may_not_see_leave_the_schedulers_words():
    finding = only(
        pods=[pod("head"), pod("prefill"), claiming()],
        unseen={"volume claims": "forbidden"},
        nodes=[],
    )
    assert finding.code == "RPD618"
    assert UNBOUND in finding.message


def test_a_claim_whose_events_are_gone():
    finding = only(pods=[pod("head"), pod("prefill"), claiming()], claims=[claim()])
    assert finding.code == "RPD615"
    assert UNBOUND in finding.message


NO_NVME = (
    'MountVolume.SetUp failed for volume "cache" : hostPath type check failed: /mnt/k8s-disks/0 is '
    "not a directory"
)


def test_nvme_that_is_not_mounted():
    waits = waiting("decode", "ContainerCreating")
    finding = only(
        pods=[pod("head"), pod("prefill"), waits],
        events=[event("Pod", waits, "FailedMount", NO_NVME)],
    )
    assert finding.code == "RPD634"
    assert "node gpu-b has no directory /mnt/k8s-disks/0" in finding.message
    assert "RAID0" in finding.remedy


def test_a_mount_that_worked_in_the_end_is_no_finding():
    runs = pod("decode")
    assert diagnose(snapshot(events=[event("Pod", runs, "FailedMount", NO_NVME)])) == []


def test_another_volume_that_cannot_be_mounted():
    waits = waiting("decode", "PodInitializing")
    words = (
        'MountVolume.SetUp failed for volume "pvc-1" : rpc error: code = Internal desc = Could not '
        'mount "fs-1:/" at "/var/lib/kubelet/...": mount failed: exit status 32'
    )
    finding = only(
        pods=[pod("head"), pod("prefill"), waits],
        events=[event("Pod", waits, "FailedMount", words)],
    )
    assert finding.code == "RPD635"
    assert words in finding.message
