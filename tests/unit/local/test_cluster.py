"""Ports and addresses of a run."""

from __future__ import annotations

import ipaddress

from raypd.local.cluster import ports_for, side_channel_address
from raypd.local.plan import NodePlan, Plan


def test_every_node_has_ports_of_its_own():
    nodes = [NodePlan(n, n, {}, {}) for n in ("head", "prefill", "decode")]
    ports = ports_for(Plan(nodes, {}))
    every = [port for options in ports.values() for port in options.values()]
    assert len(every) == len(set(every))
    assert {"port", "dashboard-port", "http-port"} <= ports["head"].keys()
    assert "port" not in ports["prefill"]
    assert "nixl-port" in ports["decode"]


def test_runs_have_different_loopback_addresses_for_the_side_channel():
    addresses = {side_channel_address(f"run-{n}") for n in range(50)}
    assert len(addresses) == 50
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert "127.0.0.1" not in addresses
