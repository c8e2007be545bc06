"""EFS and FSx file systems that volumes are made of."""

from __future__ import annotations

from typing import Any

from raypd.preflight.aws.filesystems import file_systems
from raypd.preflight.site import Site
from unit.live import paper
from unit.live.paper import FakeCluster
from unit.preflight.simulated import (
    PaperKube,
    Simulated,
    codes,
    only,
    outcomes,
    seen,
    site,
    unseen,
    values,
)


def volume(identity: str, driver: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "weights"},
        "spec": {"csi": {"driver": driver, "volumeHandle": f"{identity}::fsap-1"}},
    }


def with_volume(aws: Simulated, identity: str, driver: str = "efs.csi.aws.com") -> Site:
    """The render brings a volume of the file system along (extraObjects)."""
    rendered = paper.rendered()
    rendered.manifests.append(volume(identity, driver))
    return site(aws, rendered=rendered)


def efs(aws: Simulated, zone: str = "us-west-2a", admits: str | None = "") -> str:
    """An EFS with one mount target, which admits a group on the port of NFS."""
    client, ec2 = aws.make("efs"), aws.make("ec2")
    identity = client.create_file_system(CreationToken="t")["FileSystemId"]
    group = ec2.create_security_group(GroupName="nfs", Description="nfs", VpcId=aws.vpc)["GroupId"]
    if admits is not None:
        source = [{"GroupId": admits or aws.group}]
        rule = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": source}
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    client.create_mount_target(
        FileSystemId=identity, SubnetId=aws.subnets(zone)[0], SecurityGroups=[group]
    )
    return identity


def test_none_named(aws: Simulated) -> None:
    assert seen(outcomes(file_systems, site(aws))) == "none named"


def test_an_efs_that_the_nodes_reach(aws: Simulated) -> None:
    aws.eks()
    identity = efs(aws)
    found = outcomes(file_systems, with_volume(aws, identity))
    assert codes(found) == []
    assert f"EFS {identity} with mount targets in us-west-2a" in seen(found)


def test_an_efs_that_is_not_there(aws: Simulated) -> None:
    finding = only(outcomes(file_systems, with_volume(aws, "fs-0123456789abcdef0")), "RPD830")
    assert "fs-0123456789abcdef0" in finding.message


def test_an_efs_without_a_mount_target_in_the_zone(aws: Simulated) -> None:
    aws.eks()
    identity = efs(aws, "us-west-2c")
    finding = only(outcomes(file_systems, with_volume(aws, identity)), "RPD832")
    assert "in us-west-2c and none in us-west-2a" in finding.message


def test_an_efs_that_does_not_admit_the_nodes(aws: Simulated) -> None:
    aws.eks()
    stranger = aws.security_group("stranger")
    finding = only(outcomes(file_systems, with_volume(aws, efs(aws, admits=stranger))), "RPD833")
    assert "TCP port 2049" in finding.message
    assert f"--port 2049-2049 --source-group {aws.group}" in finding.remedy


def test_while_there_is_no_cluster_its_reach_is_not_checked(aws: Simulated) -> None:
    found = outcomes(file_systems, with_volume(aws, efs(aws)))
    assert codes(found) == []
    assert "whether the nodes reach" in unseen(found)


def test_an_efs_that_is_not_available(aws: Simulated) -> None:
    identity = efs(aws)
    known = aws.make("efs").describe_file_systems()["FileSystems"][0]
    known |= {"LifeCycleState": "creating"}
    aws.answers["efs.DescribeFileSystems"] = lambda _: {"FileSystems": [known]}
    finding = only(outcomes(file_systems, with_volume(aws, identity)), "RPD831")
    assert "is creating" in finding.message


def lustre(aws: Simulated, zone: str, state: str = "AVAILABLE", port: int = 988) -> str:
    """A file system of FSx for Lustre, which admits addresses on a port."""
    ec2 = aws.make("ec2")
    subnet = aws.subnets(zone)[0]
    group = ec2.create_security_group(GroupName="lustre", Description="x", VpcId=aws.vpc)["GroupId"]
    ranges = [{"CidrIp": "10.0.0.0/8"}]
    rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": ranges}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    made = ec2.create_network_interface(SubnetId=subnet, Groups=[group])["NetworkInterface"]
    identity = "fs-0aaaaaaaaaaaaaaaa"
    known = {
        "FileSystemId": identity,
        "Lifecycle": state,
        "SubnetIds": [subnet],
        "NetworkInterfaceIds": [made["NetworkInterfaceId"]],
    }
    aws.answers["fsx.DescribeFileSystems"] = lambda _: {"FileSystems": [known]}
    return identity


def test_an_fsx_in_the_zone(aws: Simulated) -> None:
    aws.eks()
    identity = lustre(aws, "us-west-2a")
    found = outcomes(file_systems, with_volume(aws, identity, "fsx.csi.aws.com"))
    assert codes(found) == []
    assert f"FSx {identity} in us-west-2a" in seen(found)


def test_an_fsx_in_another_zone(aws: Simulated) -> None:
    aws.eks()
    where = with_volume(aws, lustre(aws, "us-west-2b"), "fsx.csi.aws.com")
    assert only(outcomes(file_systems, where), "RPD834").severity == "warning"


def test_an_fsx_on_another_port(aws: Simulated) -> None:
    aws.eks()
    where = with_volume(aws, lustre(aws, "us-west-2a", port=2049), "fsx.csi.aws.com")
    assert "TCP port 988" in only(outcomes(file_systems, where), "RPD833").message


def test_an_fsx_that_has_failed(aws: Simulated) -> None:
    where = with_volume(aws, lustre(aws, "us-west-2a", "FAILED"), "fsx.csi.aws.com")
    assert "is failed" in only(outcomes(file_systems, where), "RPD831").message


def claimed(aws: Simulated, cluster: FakeCluster | None, **claim: str) -> Site:
    rendered = paper.rendered()
    cache = {"type": "persistentVolumeClaim", "persistentVolumeClaim": claim}
    kube = PaperKube(rendered, cluster, paper.facts())
    return site(aws, rendered=rendered, values=values(cache=cache), kube=kube)


def test_the_file_system_of_the_clusters_storage_class(aws: Simulated) -> None:
    aws.eks()
    efs(aws)
    name = "/apis/storage.k8s.io/v1/storageclasses/shared"
    parameters = {"fileSystemId": "fs-0123456789abcdef0"}
    storage = {"provisioner": "efs.csi.aws.com", "parameters": parameters}
    where = claimed(aws, FakeCluster({name: storage}), storageClassName="shared")
    assert codes(outcomes(file_systems, where)) == ["RPD830"]


def test_the_file_system_of_an_existing_claim(aws: Simulated) -> None:
    aws.eks()
    objects = {
        "/api/v1/namespaces/inference/persistentvolumeclaims/w": {"spec": {"volumeName": "v"}},
        "/api/v1/persistentvolumes/v": volume(efs(aws), "efs.csi.aws.com"),
    }
    found = outcomes(file_systems, claimed(aws, FakeCluster(objects), existingClaim="w"))
    assert codes(found) == []
    assert "EFS fs-" in seen(found)


def test_without_a_cluster_its_volumes_are_not_checked(aws: Simulated) -> None:
    found = outcomes(file_systems, claimed(aws, None, existingClaim="w"))
    assert "There is no kubeconfig" in unseen(found)
