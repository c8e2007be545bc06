"""Free ports: different, free, and outside the range of outgoing connections."""

from __future__ import annotations

import socket
from pathlib import Path

from raypd.local.ports import free_ports


def test_different_and_free():
    ports = free_ports(40)
    assert len(set(ports)) == 40
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_outside_the_kernels_range():
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(free_ports(40)) < low


def test_a_taken_port_is_not_handed_out(monkeypatch):
    first = free_ports(1)[0]
    monkeypatch.setattr("raypd.local.ports._RANGE", range(first, first + 5))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first))
        assert first not in free_ports(1)
