"""Makes a machine look like the instance type that it plays.

CPUs and memory: the kubelet reads /sys/devices/system and /proc/meminfo, and sees a copy there with
the type's numbers. Nothing enforces them: pods share what this machine really has.
Devices: `nvidia.com/gpu` and the like are written into the node's status, as a device plugin's
kubelet would. The kubelet keeps what it finds there, but sets it to 0 when it registers anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from cluster.devcluster.api import Api
from cluster.devcluster.layout import Node
from cluster.devcluster.machine import Machine

CPUS = "/sys/devices/system/cpu"
NUMA_NODES = "/sys/devices/system/node"


def disguise(machine: Machine, node: Node) -> None:
    """Puts the node's CPUs and memory before the eyes of what is started in its machine later."""
    folder = machine.folder / "hardware"
    meminfo = folder / "meminfo"
    folder.mkdir(parents=True)
    total = f"MemTotal:       {node.memory_mib * 1024} kB"
    meminfo.write_text(re.sub("MemTotal:.*", total, Path("/proc/meminfo").read_text()))
    for number in range(node.cpus):
        topology = folder / "cpu" / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number // 2}\n")
        (topology / "physical_package_id").write_text("0\n")
    # Capacity is the number of CPUs, online or not; cpusets are made of those that are online.
    (folder / "cpu" / "online").write_text(Path(CPUS, "online").read_text())
    (folder / "node").mkdir()  # NUMA nodes would be counted instead, and only what is online there
    machine.run("mount", "--bind", meminfo, "/proc/meminfo")
    machine.run("mount", "--bind", folder / "cpu", CPUS)
    machine.run("mount", "--bind", folder / "node", NUMA_NODES)


def advertise_devices(api: Api, node: Node) -> None:
    if node.devices:
        devices = {name: str(count) for name, count in node.devices.items()}
        status = {"status": {"capacity": devices, "allocatable": devices}}
        api.merge(f"/api/v1/nodes/{node.name}/status", status)
